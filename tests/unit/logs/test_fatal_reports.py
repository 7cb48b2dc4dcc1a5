"""Fatal reports of simulation programs, and HTCondor's event log."""

from __future__ import annotations

import pytest

from tests.support.logs import kinds, of_kind, only, parse


@pytest.mark.parametrize(
    ("text", "rank", "what"),
    [
        (
            "[5] --> FOAM FATAL ERROR: (openfoam-2412)\n[5] No field rho at time 3\n[5]\nFOAM parallel run exiting\n",
            5,
            "No field rho at time 3",
        ),
        ("[0] --> FOAM FATAL IO ERROR: \n[0] Unknown keyword div(phi)\n", 0, "Unknown keyword div(phi)"),
        ("--> FOAM FATAL ERROR:\nMesh has no cells\n\n    From main()\n", None, "Mesh has no cells"),
        ("--> FOAM FATAL ERROR : Mesh has no cells\n", None, "Mesh has no cells"),
        ("--> FOAM FATAL ERROR:\n", None, "a fatal error of OpenFOAM"),
        (
            (
                "Source file: src/gromacs/mdlib/sim_util.cpp (line 77)\n"
                "MPI rank:    6 (out of 8)\n\nFatal error:\nStep 9: the box is no box\n"
            ),
            6,
            "a fatal error at src/gromacs/mdlib/sim_util.cpp:77",
        ),
        (
            '4::Assertion `n > 0\' failed, file "a/AMReX_X.cpp", line 7 !!!\nSIGABRT\n',
            4,
            'Assertion `n > 0\' failed, file "a/AMReX_X.cpp", line 7',
        ),
        ("amrex::Abort::12::no such level !!!\nSIGABRT\n", 12, "no such level"),
        (
            (
                "----- Begin Fatal Exception 01-Feb-2026 10:00:00 CET-----------------------\n"
                "An exception of category 'NoSuchThing' occurred while\n"
                "   [0] Calling beginJob\n"
                "Exception Message:\n"
            ),
            None,
            "a fatal exception of category NoSuchThing while Calling beginJob",
        ),
    ],
)
def test_why_a_program_ends_stands_on_the_next_line(text: str, rank: int | None, what: str) -> None:
    event = only(parse(text), "process.signal")
    assert (event.rank, str(event.data["what"]).replace(f"[{rank}] ", "")) == (rank, what)


def test_what_a_phone_logs_is_no_rank_s() -> None:
    assert kinds(parse("01-03 19:57:30.700 E/audio_hw(  129): set: ERROR: no stream is open at all\n")) == []


def test_a_call_that_a_program_checks_by_itself() -> None:
    text = (
        "cudaStreamSynchronize(s) error( cudaErrorIllegalAddress): an illegal memory access was encountered k.cpp:9\n"
    )
    assert only(parse(text), "torch.cuda_error").data["signature"] == "illegal_access"
    assert kinds(parse("hipMalloc(&p, n) error( hipErrorOutOfMemory): out of memory k.cpp:9\n")) == [
        "torch.out_of_memory"
    ]


def test_a_warning_is_no_end() -> None:
    assert kinds(parse("--> FOAM Warning :\n    From main()\n    Mesh is skewed\n")) == []


def test_what_held_a_job() -> None:
    text = (
        "012 (4711.000.000) 03/21 01:51:54 Job was held.\n"
        "\tJob in status 2 put on hold by SYSTEM_PERIODIC_HOLD due to memory usage 123456.\n"
    )
    assert only(parse(text), "slurm.out_of_memory").data["launcher"] == "htcondor"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("\t(1) Normal termination (return value 3)\n", {"launcher": "htcondor", "exitcode": 3}),
        ("\t(0) Abnormal termination (signal 11)\n", {"launcher": "htcondor", "signal": "SEGV"}),
    ],
)
def test_how_a_job_ended(text: str, data: dict[str, object]) -> None:
    (event,) = of_kind(parse(text), "launcher.exit")
    assert event.data == data


def test_a_good_end() -> None:
    assert kinds(parse("\t(1) Normal termination (return value 0)\n")) == ["job.finished"]
