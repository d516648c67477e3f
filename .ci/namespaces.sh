# What scripts that work in network namespaces share; they source it.

# install COMMAND=PACKAGE…: what is missing (Debian).
install() {
    local one missing=()
    for one; do
        command -v "${one%=*}" >/dev/null || missing+=("${one#*=}")
    done
    ((${#missing[@]} == 0)) && return
    command -v apt-get >/dev/null || { echo "please install: ${missing[*]}" >&2; return 1; }
    apt-get update -q
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# alone ARGUMENT…: begins the script anew, with these arguments, in namespaces of its own of
# processes and of mounts, with an empty /mnt. Whatever it starts there, names or writes is gone
# when it ends, however it ends.
alone() {
    if [[ -z ${MANYWAY_ALONE:-} ]]; then
        # Where `ip netns` keeps names.
        mkdir -p /run/netns
        MANYWAY_ALONE=1 exec unshare --mount --pid --fork --kill-child --mount-proc \
            "$(realpath "$0")" "$@"
    fi
    unset MANYWAY_ALONE
    trap 'exit 130' INT TERM HUP
    mount -t tmpfs alone /run/netns
    mount -t tmpfs alone /mnt
    cd /mnt
}

run() { ip netns exec "$@"; }

# namespace NAME…: with a loopback device, and forwarding.
namespace() {
    local name
    for name; do
        ip netns add "$name"
        ip -n "$name" link set lo up
        run "$name" sysctl -qw net.ipv4.ip_forward=1
    done
}

link() { # NAMESPACE DEVICE ADDRESS NAMESPACE DEVICE ADDRESS
    ip link add "$2" netns "$1" type veth peer name "$5" netns "$4"
    ip -n "$1" addr add "$3/24" dev "$2"
    ip -n "$4" addr add "$6/24" dev "$5"
    ip -n "$1" link set "$2" up
    ip -n "$4" link set "$5" up
    # The kernel takes up to a second to say so, and programs use what is up.
    until [[ $(ip -n "$1" link show "$2") = *"state UP"* ]]; do sleep 0.02; done
    until [[ $(ip -n "$4" link show "$5") = *"state UP"* ]]; do sleep 0.02; done
}

wait_for() { # WORDS FILE
    local _
    for _ in $(seq 400); do
        grep -q -- "$1" "$2" 2>/dev/null && return
        sleep 0.05
    done
    echo "never said \"$1\":" >&2
    cat "$2" >&2
    return 1
}
