"""Addresses: who lives where in scratch and in the weights image."""

from deuteron.plan.budget import Budget, Effort, FetchPolicy
from deuteron.plan.lifetimes import Lifetime
from deuteron.plan.plan import Placement, Plan, check, plan, plan_within

__all__ = ["Budget", "Effort", "FetchPolicy", "Lifetime", "Placement", "Plan", "check", "plan", "plan_within"]
