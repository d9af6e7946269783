"""Addresses: who lives where in scratch and in the weights image."""

from deuteron.plan.lifetimes import Lifetime
from deuteron.plan.plan import Placement, Plan, check, plan

__all__ = ["Lifetime", "Placement", "Plan", "check", "plan"]
