"""Order and addresses: which call runs when, and who lives where in scratch and in the weights image."""

from deuteron.npu.neutron.plan.budget import Budget, budget
from deuteron.npu.neutron.plan.depth_first import cycles, plan_within
from deuteron.npu.neutron.plan.lifetimes import Lifetime
from deuteron.npu.neutron.plan.order import in_best_order
from deuteron.npu.neutron.plan.plan import Known, Plan, check, plan

__all__ = ["Budget", "Known", "Lifetime", "Plan", "budget", "check", "cycles", "in_best_order", "plan", "plan_within"]
