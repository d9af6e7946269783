"""Addresses: who lives where in scratch and in the weights image."""

from deuteron.plan.budget import Budget, budget
from deuteron.plan.lifetimes import Lifetime
from deuteron.plan.plan import Placement, Plan, check, plan, plan_within

__all__ = ["Budget", "Lifetime", "Placement", "Plan", "budget", "check", "plan", "plan_within"]
