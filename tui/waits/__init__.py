"""Who waits for whom as a picture: columns of boxes, then rectangles and arrows in cells, for terminal and SVG."""
