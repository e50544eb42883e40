"""The Spark session of an engine: the user's, or one that is started when it is first needed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any

from headgate.spark.packages import Package, at_start
from headgate.spark.session import session, user_settings
from headgate.spark.warmup import warm_up

WARM_UP_TIMEOUT = 2.0
"""Seconds that `stop` waits for Spark's first job, before and after it is cancelled."""

_users: Counter[str] = Counter()
"""Engines by the Spark application that they run in: a process has one, which their last engine stops."""
_users_lock = threading.Lock()


class LazySession:
    """A session. Any thread may call it.

    - `given`: the user's session; without one a session is started on `master`, by default local
    - `local_files`: see `session`
    """

    def __init__(self, given: Any, master: str | None, local_files: bool) -> None:
        self._spark = given
        self._own = given is None
        self._master = master
        self._local_files = local_files
        self._packages: set[Package] = set()
        self._application = ""
        self._lock = threading.RLock()

    @property
    def spark(self) -> Any:
        """The session; starts it if there is none."""
        with self._lock:
            if self._spark is None:
                settings = at_start(self._packages, user_settings())
                self._spark = session("headgate", self._master, settings, self._local_files)
                self._application = str(self._spark.sparkContext.applicationId)
                with _users_lock:
                    _users[self._application] += 1
                warm_up(self._spark)
            return self._spark

    @property
    def local(self) -> bool:
        """Whether Spark runs in this process's JVM, so that hosts are beside this process."""
        known = self._spark
        master = (self._master or "local") if known is None else str(known.sparkContext.master)
        return master.startswith("local")

    @property
    def time_zone(self) -> str:
        """The time zone of the session; UTC before it is started."""
        return "UTC" if self._spark is None else str(self._spark.conf.get("spark.sql.session.timeZone"))

    def need(self, packages: Iterable[Package]) -> None:
        """Adds packages that a session started later has from its start."""
        with self._lock:
            self._packages.update(packages)

    def stop(self) -> None:
        """Stops the session, unless it is the user's or another engine of this process uses it; it is started again
        when it is needed."""
        with self._lock:
            if not self._own or self._spark is None:
                return
            spark, self._spark = self._spark, None
            with _users_lock:
                _users[self._application] -= 1
                shared = _users[self._application] > 0
            # Without its Java object somebody has stopped it already.
            if not shared and spark.sparkContext._jsc is not None:
                # If Spark is stopped during its first job, it logs a page of errors.
                starting = warm_up(spark)
                starting.join(WARM_UP_TIMEOUT)
                if starting.is_alive():
                    # A cluster without a free executor never runs it.
                    spark.sparkContext.cancelAllJobs()
                    starting.join(WARM_UP_TIMEOUT)
                spark.stop()
