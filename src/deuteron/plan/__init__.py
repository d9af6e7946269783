"""Order and addresses: which call runs when, and who lives where in scratch and in the weights image."""

from deuteron.plan.budget import Budget, budget
from deuteron.plan.lifetimes import Lifetime
from deuteron.plan.order import in_best_order
from deuteron.plan.plan import Plan, check, plan, plan_within

__all__ = ["Budget", "Lifetime", "Plan", "budget", "check", "in_best_order", "plan", "plan_within"]
