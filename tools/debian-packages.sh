#!/bin/sh
# Makes sure that the programs which the build and the tests run are installed, through Debian's packages.
# With the word `boards`, also those that build firmware for boards and run it, that show reports of profiles, and that
# keep what tests compile.
# As root, or where sudo asks for no password, it installs what is missing; elsewhere it says what is missing and fails.
set -eu

missing=""
need() { # need COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need gcc build-essential
need g++ build-essential
need make build-essential
need cmake cmake
need git git
need python3 python3
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"
if [ "${1:-}" = boards ]; then
    need arm-none-eabi-gcc gcc-arm-none-eabi
    need arm-none-eabi-ar binutils-arm-none-eabi
    need qemu-system-arm qemu-system-arm
    need ccache ccache
    # Any version: one test compiles the inner loops with it.
    found=""
    for name in clang clang-14 clang-15 clang-16 clang-17 clang-18 clang-19 clang-20; do
        command -v "$name" >/dev/null 2>&1 && found="$name"
    done
    [ -n "$found" ] || missing="$missing clang"
    need chromium chromium
    need chromedriver chromium-driver
    # The compiler answers with a path for the libraries that it finds.
    case $(arm-none-eabi-gcc -print-file-name=libc_nano.a 2>/dev/null) in
    */*) ;;
    *) missing="$missing libnewlib-arm-none-eabi" ;;
    esac
fi
missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
[ -n "${missing# }" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "error: these packages (Debian's names) are missing: $missing" >&2
    echo >&2
    echo "hint: install them with this system's package manager, then run the command again" >&2
    exit 1
elif [ "$(id -u)" = 0 ]; then
    as_root=""
elif sudo -n true 2>/dev/null; then
    as_root="sudo"
else
    echo "error: these Debian packages are missing: $missing" >&2
    echo >&2
    echo "hint: run \`sudo apt-get install $missing\`, then run the command again" >&2
    exit 1
fi
echo "Debian packages: installing $missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086 # a list of packages
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
