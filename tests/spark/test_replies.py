"""Answers that reach the driver before their job ends."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from headgate.spark import replies as replies_module
from headgate.spark.messages import EpochAnswer, EpochRequest, HostAddress, Place
from headgate.spark.replies import NoReply, Replies, reply

Answers = tuple[EpochAnswer, ...]


def _request(replies: Replies, attempt: str = "a1") -> EpochRequest:
    return EpochRequest("run", "secret", (1, 1), "ckpt", 4, 3, attempt, "plan", None, 0.0, reply=replies.address)


def _answer(replica: int = 0, epoch: int = 4) -> EpochAnswer:
    return EpochAnswer(replica, epoch, "a1-0", HostAddress("n", "s", 1), False, Place("f", 0, 1, 2), ("f",))


@pytest.fixture
def replies(tmp_path: Path) -> Replies:
    return Replies(tmp_path, "secret")


def test_the_answers_of_all_replicas_come_before_the_job_ends(replies: Replies) -> None:
    request = _request(replies)
    job: Future[Answers] = Future()

    def start() -> Future[Answers]:
        for replica in (1, 0):
            reply(request, _answer(replica).pack())
        return job

    assert [answer.replica for answer in replies.first(request, 2, start)] == [0, 1]
    assert not job.done()
    replies.close()


def test_the_job_answers_where_no_reply_comes(replies: Replies) -> None:
    done: Future[Answers] = Future()
    threading.Timer(0.01, lambda: done.set_result((_answer(epoch=9),))).start()
    assert replies.first(_request(replies), 1, lambda: done)[0].epoch == 9
    failed: Future[Answers] = Future()
    failed.set_exception(RuntimeError("the job failed"))
    with pytest.raises(RuntimeError, match="the job failed"):
        replies.first(_request(replies), 1, lambda: failed)
    replies.close()


def test_a_job_may_leave_the_answer_to_the_host(replies: Replies, monkeypatch: pytest.MonkeyPatch) -> None:
    request = _request(replies)
    job: Future[Answers | None] = Future()
    job.set_result(None)
    # The reply comes after the end of the job.
    threading.Timer(0.01, lambda: reply(request, _answer(epoch=7).pack())).start()
    assert replies.first(request, 1, lambda: job)[0].epoch == 7
    monkeypatch.setattr(replies_module, "_TIMEOUT", 0.01)
    with pytest.raises(NoReply, match="the job of epoch 4 has ended"):
        replies.first(request, 1, lambda: job)
    replies.close()


def test_answers_of_other_attempts_and_with_a_wrong_token_are_dropped(replies: Replies) -> None:
    request = _request(replies)
    job: Future[Answers] = Future()

    def start() -> Future[Answers]:
        reply(_request(replies, "a0"), _answer(epoch=1).pack())
        reply(replace(request, token="guess"), _answer(epoch=2).pack())
        reply(request, b"no answer")
        reply(request, _answer(epoch=5).pack())
        return job

    assert replies.first(request, 1, start)[0].epoch == 5
    replies.close()


def test_a_host_goes_on_where_the_driver_takes_no_answers(replies: Replies) -> None:
    request = _request(replies)
    replies.close()
    reply(request, _answer().pack())
    assert not Path(replies.address).exists()
