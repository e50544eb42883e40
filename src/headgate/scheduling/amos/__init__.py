"""AMoS: which policy to run next, learned from the results of each (002 §3)."""

from headgate.scheduling.amos.by_class import Auto
from headgate.scheduling.amos.choice import LEARNERS, learner
from headgate.scheduling.amos.learners import Learner
from headgate.scheduling.amos.policy import Amos
from headgate.scheduling.amos.scoring import Objective, ObjectiveWeights, Scores

__all__ = ["LEARNERS", "Amos", "Auto", "Learner", "Objective", "ObjectiveWeights", "Scores", "learner"]
