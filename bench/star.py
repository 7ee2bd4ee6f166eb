"""Hosts in network namespaces around a bridge: a core, and points each behind a token bucket both ways. Needs root."""

import subprocess


def run(*words):
    subprocess.run([str(w) for w in words], check=True)


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *[str(w) for w in words]]


class Star:
    """Network whose namespaces begin with `name`."""

    def __init__(self, name, core_address):
        self.name = name
        self.core = f"{name}-core"
        self.core_address = core_address
        self.points = 0

    def of(self, point):
        """Namespace of a point."""
        return f"{self.name}-{point}"

    def lay(self):
        """The bridge with the core's address."""
        run("ip", "netns", "add", self.core)
        run(*inside(self.core, "ip", "link", "add", "br0", "type", "bridge"))
        run(*inside(self.core, "ip", "addr", "add", self.core_address, "dev", "br0"))
        for link in ("lo", "br0"):
            run(*inside(self.core, "ip", "link", "set", link, "up"))

    def add(self, point, address, up, down):
        """A point at a port of the bridge; `up` and `down` are the options of its token buckets."""
        name, port = self.of(point), f"p{self.points}"
        self.points += 1
        run("ip", "netns", "add", name)
        run("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", self.core)
        run(*inside(self.core, "ip", "link", "set", port, "master", "br0", "up"))
        run(*inside(name, "ip", "addr", "add", address, "dev", "eth0"))
        for link in ("lo", "eth0"):
            run(*inside(name, "ip", "link", "set", link, "up"))
        for namespace, link, bucket in ((name, "eth0", up), (self.core, port, down)):
            run(*inside(namespace, "tc", "qdisc", "add", "dev", link, "root", "tbf", *bucket))

    def remove(self):
        """All namespaces of this name, of an earlier run too."""
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines():
            if line.startswith(f"{self.name}-"):
                subprocess.run(["ip", "netns", "delete", line.split()[0]], check=False)
