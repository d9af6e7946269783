"""Simulates the timeline of NPU, CPU and flash from microcode and the rates of a target.

The CPU runs the driver and starts kernels and fetches. It waits for each kernel to end, and for a fetch at a wait
command. All channels share one flash, whose transfers run one after the other.
"""

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch, Wait
from deuteron.npu.timeline import Activity, Event, Timeline, Track


def simulate(decoded: Decoded, engine: Engine, *, keep_resident: bool = True) -> Timeline:
    """Return the timeline of one run.

    Args:
        decoded: the microcode.
        engine: the rates of the target.
        keep_resident: the prefetch area is unchanged since an earlier run; resident bytes are not fetched again.
    """
    events: list[Event] = []
    now = free = 0
    done: dict[int, int] = {}
    for index, command in enumerate(decoded.commands):
        match command:
            case Call():
                price, name = cost(command.params, engine), command.kernel.name
                start = now + engine.call_dispatch
                events.append(Event(Track.CPU, Activity.DISPATCH, index, now, start, name))
                now = start + price.cycles
                events.append(Event(Track.NPU, Activity.KERNEL, index, start, now, name, price))
            case Fetch():
                if command.resident and keep_resident:
                    continue
                start = now + engine.fetch_setup
                name = f"weights {command.source}"
                events.append(Event(Track.CPU, Activity.SETUP, index, now, start, name))
                now, begun = start, max(start, free)
                free = begun + engine.fetch_latency + engine.transfer(command.nbytes)
                events.append(Event(Track.FLASH, Activity.TRANSFER, index, begun, free, name, nbytes=command.nbytes))
                done[command.channel] = free
            case Wait():
                arrived = max(now, done.get(command.channel, 0))
                if arrived > now:
                    events.append(Event(Track.CPU, Activity.STALL, index, now, arrived, f"channel {command.channel}"))
                now = arrived
    return Timeline(engine, tuple(sorted(events, key=lambda event: (event.start, event.stop))), max(now, free))
