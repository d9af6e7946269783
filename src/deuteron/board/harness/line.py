"""Lines to boards: a serial port, or a TCP connection to a probe or a network."""

import contextlib
import errno
import os
import socket
from abc import ABC, abstractmethod
from typing import Any

from deuteron import extras
from deuteron.errors import BoardError, OptionError

SERIAL, TCP = "serial:", "tcp:"
BAUD = 115_200
"""Default rate of a serial port in bits per second."""

_BAUDS = range(1, 1 << 31)
"""Rates that a driver's integer holds; a port takes fewer."""

_CONNECT_SECONDS = 5.0
_SEND_SECONDS = 5.0
_CHUNK = 4096
_BITS_PER_BYTE = 10


class Line(ABC):
    """A line; every method returns within its time limit."""

    name: str
    bytes_per_second: float = 1e6
    """Rate of the line, an estimate for waiting times."""
    has_rate: bool = False
    """True if both sides must have the same rate."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send all bytes; BoardError if the line takes none for seconds, or is lost."""

    @abstractmethod
    def receive(self, seconds: float) -> bytes:
        """Return the bytes that have arrived, after at most that time; empty for none. BoardError if it is lost."""

    @abstractmethod
    def close(self) -> None:
        """Close the line."""


def is_line(on: str | None) -> bool:
    """Return true for the name of a line: `serial:PORT` or `tcp:HOST:PORT`."""
    return on is not None and on.startswith((SERIAL, TCP))


def open_line(name: str, baud: int | None = None) -> Line:
    """Open the line of a name.

    Args:
        name: `serial:PORT` or `tcp:HOST:PORT`.
        baud: rate of a serial port in bits per second; None for the default.

    Raises:
        OptionError: the name has another form, the rate is out of range, or a rate is given for TCP.
        MissingToolError: pyserial is not installed, for a serial port.
        BoardError: the line cannot be opened.
    """
    if baud is not None and baud not in _BAUDS:
        raise OptionError(
            f"`--baud` is {baud}, it must be {_BAUDS.start} to {_BAUDS.stop - 1}",
            hint="give the rate of the port's `uart.c` in bits per second, such as 115200",
        )
    if name.startswith(SERIAL):
        return _SerialLine(name.removeprefix(SERIAL), BAUD if baud is None else baud)
    if not name.startswith(TCP):
        raise OptionError(
            f"`--on {name}` does not name a line", hint="use `--on serial:/dev/ttyACM0` or `--on tcp:HOST:PORT`"
        )
    host, port = _host_and_port(name)
    if baud is not None:
        raise OptionError("`--baud` is for serial ports, and TCP has no rate", hint="leave it out")
    return _TcpLine(host, port)


def _host_and_port(name: str) -> tuple[str, int]:
    """Return the parts of `tcp:HOST:PORT`; an IPv6 address may have brackets."""
    host, colon, port = name.removeprefix(TCP).rpartition(":")
    wrong = None
    if not colon:
        wrong = "has no port"
    elif not host.strip("[]"):
        wrong = "has no host"
    elif not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16):
        wrong = f"has the port `{port}`, which is not a number of 1 to 65535"
    if wrong:
        raise OptionError(f"`--on {name}` {wrong}", hint="use `--on tcp:HOST:PORT`, such as `tcp:127.0.0.1:5555`")
    return host.strip("[]"), int(port)


class _SerialLine(Line):
    def __init__(self, port: str, baud: int) -> None:
        if not port:
            raise OptionError("`--on serial:` names no port", hint="use `--on serial:/dev/ttyACM0`, or `serial:COM3`")
        extras.require("boards", "serial", "a serial port")
        import serial

        self.name = f"serial:{port}"
        self.bytes_per_second = baud / _BITS_PER_BYTE
        self.has_rate = True
        self._lost: Any = (serial.SerialException, OSError, TypeError)  # pyserial raises TypeError on a closed port
        try:
            self._port: Any = serial.Serial(port, baud, timeout=0, write_timeout=_SEND_SECONDS, exclusive=True)
        except (ValueError, *self._lost) as e:
            raise BoardError(
                f"the serial port `{port}` cannot be opened: {_reason_not_open(e)}",
                hint="check its name, the cable, your permissions, and that no other program uses it",
            ) from e

    def send(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except self._lost as e:
            raise _lost(self.name, e) from e

    def receive(self, seconds: float) -> bytes:
        try:
            self._port.timeout = seconds
            first: bytes = self._port.read(1)
            return first + self._port.read(self._port.in_waiting) if first else b""
        except self._lost as e:
            raise _lost(self.name, e) from e

    def close(self) -> None:
        with contextlib.suppress(*self._lost):
            self._port.close()


class _TcpLine(Line):
    def __init__(self, host: str, port: int) -> None:
        self.name = f"tcp:[{host}]:{port}" if ":" in host else f"tcp:{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout=_CONNECT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except UnicodeError as e:  # from the encoding of the name, as of an empty label
            raise OptionError(f"`{host}` is not the name of a host", hint="use `--on tcp:HOST:PORT`") from e
        except OSError as e:
            raise BoardError(
                f"`{self.name}` cannot be connected: {_reason(e)}",
                hint="check host and port, and that the emulator, probe or server is running",
            ) from e

    def send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(_SEND_SECONDS)
            self._socket.sendall(data)
        except OSError as e:
            raise _lost(self.name, e) from e

    def receive(self, seconds: float) -> bytes:
        try:
            self._socket.settimeout(max(seconds, 1e-3))
            data = self._socket.recv(_CHUNK)
        except TimeoutError:
            return b""
        except OSError as e:
            raise _lost(self.name, e) from e
        if not data:
            raise _lost(self.name, None)
        return data

    def close(self) -> None:
        self._socket.close()


def _lost(name: str, error: Exception | None) -> BoardError:
    reason = "the other side closed it" if error is None else _reason(error)
    return BoardError(
        f"the line `{name}` is lost: {reason}",
        hint="check the cable and the board, and run again; a line that a reset of the board closes ends the run",
    )


def _reason_not_open(error: Exception) -> str:
    """Return why pyserial cannot open a port: its own text repeats the name."""
    code = getattr(error, "errno", None)
    if code in (errno.EAGAIN, errno.EWOULDBLOCK):
        return "another program uses it"
    if f"({errno.ENOTTY}," in str(error):  # pyserial keeps the number in its text alone
        return "it is not a serial port"
    return os.strerror(code) if code else _reason(error)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if "readiness to read" in str(error):  # what pyserial says of a device that is gone
        return "the device is gone, or another program reads it"
    return str(error) or type(error).__name__
