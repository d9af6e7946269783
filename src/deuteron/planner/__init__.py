"""Plans programs: order of calls, offsets in scratch and in the weights image, prefetch of weights, stripes."""

from deuteron.planner.budget import Budget
from deuteron.planner.call_order import reorder_calls
from deuteron.planner.depth_first import cycles, plan_within
from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.plan import Plan, PlanQuality, check, plan

__all__ = [
    "Budget",
    "Lifetime",
    "Plan",
    "PlanQuality",
    "check",
    "cycles",
    "plan",
    "plan_within",
    "reorder_calls",
]
