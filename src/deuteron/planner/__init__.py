"""Order and addresses: which call runs when, and who lives where in scratch and in the weights image."""

from deuteron.planner.budget import Budget, budget
from deuteron.planner.call_order import in_best_order
from deuteron.planner.depth_first import cycles, plan_within
from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.plan import Known, Plan, check, plan

__all__ = ["Budget", "Known", "Lifetime", "Plan", "budget", "check", "cycles", "in_best_order", "plan", "plan_within"]
