"""Names the test that runs each command of the documentation. An entry gives the texts that replace parts of the
command in the test, or names the file that runs the command elsewhere."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Here:
    """The test method that is marked with the scenario `test` runs the command. `instead` has parts of the command, and
    the texts that replace these parts, in this order. The test gives the values of the names in braces."""
    test: str
    instead: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Elsewhere:
    """The command cannot run inside the check. The file `file` of the repository runs or tests the command, or says
    how it is run. This file must contain the word `word`. The test method checks that the command's script exists
    and takes its options."""
    file: str
    word: str
    test: str


# The hosts of the pages are namespaces with the pages' addresses. Their files are in the test's directory.
KEYS, COPY, LOCAL, ONE_NODE, THREE_NODES = "keys", "copy", "local", "one_node", "three_nodes"
NODES_OF_README, PROJECT, BUILD, INSTALL, SCRIPTS = "nodes_of_the_readme", "project", "build", "install", "scripts"
STORE = {"/var/lib/rdmc": "{store}", "/etc/rdmc/key": "F"}
A, A_B_C = {" A": " 10.0.0.1"}, {" A,B,C": " 10.0.0.1,10.0.0.2,10.0.0.3"}
# As four nodes are enough, and all of them are this machine, each task has a working directory of its own.
IN_A_FOLDER = {"rdmc_bcast": "sh -c 'mkdir {folder}/$$ && cd {folder}/$$ && exec rdmc_bcast \"$@\"' rdmc_bcast", "SRC": "{source}"}

COMMANDS = {
    # Keys and copies.
    "rdmc_bcast keygen key": Here(KEYS),
    "rdmc_bcast keygen --rotate add key": Here(KEYS),
    "rdmc_bcast keygen --rotate promote key": Here(KEYS),
    "rdmc_bcast keygen --rotate retire key": Here(KEYS),
    "rdmc_bcast agent --listen 10.0.0.2 --root /srv/files --key-file key":
        Here(COPY, {"10.0.0.2": "{address}", "/srv/files": "{root}"}),
    "rdmc_bcast -w '10.0.0.[2-9]' --key-file key image.tar releases/image.tar": Here(COPY),
    # The eight hosts have names, too.
    "rdmc_bcast -w 'n[01-16]' --key-file key --json image.tar releases/ | jq -c 'select(.event == \"receiver\")'":
        Here(COPY, {"n[01-16]": "n[01-08]"}),
    "build/apps/bcast-cli/rdmc_bcast --local 8 FILE /tmp/copies/": Here(LOCAL, {"/tmp/": "{folder}/"}),
    # Launchers.
    "mkdir -p ~/.config/rdmc": Here("launchers"),
    "srun -N4 build/lib/rdmc_group_example": Here("launchers"),
    "mpirun -n 4 build/lib/rdmc_group_example": Here("launchers"),
    "srun -N16 --ntasks-per-node=1 rdmc_bcast --launch slurm SRC DEST": Here("launchers", {"-N16": "-N4", **IN_A_FOLDER}),
    "mpirun -n 16 rdmc_bcast --launch pmix SRC DEST": Here("launchers", {"-n 16": "-n 4", **IN_A_FOLDER}),
    # Stores and groups. The hosts' addresses replace A, B and C.
    "rdmc_control serve --directory /var/lib/rdmc --key-file /etc/rdmc/key": Here(ONE_NODE, STORE),
    "rdmc_control views --key-file F": Here(ONE_NODE),
    "rdmc_control views --certificate C --private-key P --authority A": Here("certificates"),
    "rdmc_control member GROUP --name N --listen ADDR --key-file F --json": Here(ONE_NODE, {"ADDR": "127.0.0.1"}),
    # The second member has the name MEMBER.
    "rdmc_control member GROUP --name N --listen ADDR --key-file F": Here(ONE_NODE, {"ADDR": "127.0.0.1", "--name N": "--name MEMBER"}),
    "rdmc_control members GROUP --key-file F": Here(ONE_NODE),
    "rdmc_control members GROUP --key-file F --json": Here(ONE_NODE),
    "rdmc_control watch GROUP --key-file F": Here(ONE_NODE),
    "rdmc_control remove GROUP MEMBER --key-file F": Here(ONE_NODE),
    # As the page says, the other hosts have `--self 1` and `--self 2`.
    "rdmc_control serve --directory /var/lib/rdmc --key-file /etc/rdmc/key --self 0 --nodes 10.0.0.1,10.0.0.2,10.0.0.3":
        Here(THREE_NODES, {**STORE, "--self 0": "--self {index}"}),
    "rdmc_control survivor --store 10.0.0.1 --key-file /etc/rdmc/key": Here(THREE_NODES, {"/etc/rdmc/key": "F"}),
    "rdmc_control serve --directory D --key-file F --self 0 --nodes A,B,C": Here(NODES_OF_README, A_B_C),
    "rdmc_control serve --memory --key-file F --self 0 --nodes A,B,C": Here(NODES_OF_README, {**A_B_C, "--self 0": "--self {index}"}),
    "rdmc_control survivor --store A --key-file F": Here(NODES_OF_README, A),
    # Hosts and foreign programs. The peer is a second process of rdmc's own program. tests/interop runs ibv_rc_pingpong
    # and rping.
    "rdmc_doctor --address 10.0.0.2": Here("doctor", {"--address": "--seconds 0.05 --address"}),
    "ibv_rc_pingpong -g 1 -m 1024": Here("pingpong", {"ibv_rc_pingpong": "rdmc_pingpong"}),
    "rdmc_pingpong -m 1024 10.0.0.2": Here("pingpong"),
    "rping -s -a 10.0.0.2 -V": Here("ping", {"rping -s": "rdmc_ping"}),
    "rdmc_ping -V -C 100 10.0.0.2": Here("ping"),
    # The simulator, and a measurement between two processes.
    "rdmc_sim bcast --seed 8 --members 8 --size 1M --faults all": Here("sim"),
    "rdmc_sim bcast --members 4096 --size 256M --rate 20g": Here("sim", {"4096": "512", "256M": "32M"}),
    "rdmc_sim kv --seed 8 --members 3 --faults all": Here("sim"),
    "build/bench/rdmc_perf unicast --fabric dpdk": Here("perf", {"dpdk": "dpdk --size 64K --iterations 5"}),
    # A rank program.
    "build/apps/run/rdmc_run -n 4 -r 1 build/apps/run/rdmc_example_cg --size 500 --iterations 200": Here("rank_program"),
    "build/apps/run/rdmc_run -n 4 --check-determinism build/apps/run/rdmc_example_cg --size 50 --iterations 8": Here("determinism_check"),
    # The key-value service. The servers have addresses of this machine.
    "rdmc_kv serve": Here("kv", {"serve": "serve --listen {address}:6379"}),
    "rdmc_kv serve --listen 10.0.0.1:6379 --members '10.0.0.[1-3]:6379' --key-file F":
        Here("kv", {"10.0.0.1:6379": "{network}.{index}:6379", "10.0.0.[1-3]": "{network}.[1-3]"}),
    "rdmc_kv serve --listen 10.0.0.1:6379 --members '10.0.0.[1-3]:6379' --key-file F --dir /var/lib/rdmc_kv":
        Here("kv", {"10.0.0.1:6379": "{network}.{index}:6379", "10.0.0.[1-3]": "{network}.[1-3]",
                    "/var/lib/rdmc_kv": "kv-{index}"}),
    "rdmc_control survivor --store 10.0.0.1:16379 --key-file F": Here("kv", {"10.0.0.1": "{network}.1"}),
    # Applications.
    "cc echo.c $(pkg-config --cflags-only-I --libs rdmc) -o echo": Here("sockets"),
    "rdmc_bcast keygen ~/.config/rdmc/key": Here("sockets"),
    "./echo 127.0.0.1 7000 &": Here("sockets", {" &": ""}),  # The test starts it without waiting for its end.
    "./echo 127.0.0.1 7000 hello": Here("sockets"),
    "sed 's/rdmc_//g; s,<rdmc/socket.h>,<unistd.h>\\n#include <poll.h>\\n#include <sys/socket.h>,'": Here("sockets_back"),
    "c++ program.cpp $(pkg-config --cflags --libs rdmc) -o program": Here("programs"),
    "cc program.c $(pkg-config --cflags-only-I --libs rdmc) -o program": Here("programs"),
    # A small project stands in for rdmc, and package tools that find everything installed stand in for Debian's.
    "git clone URL rdmc": Here(PROJECT),
    "cd rdmc": Here(PROJECT),
    "tools/setup build": Here(PROJECT),
    "tools/setup build check": Here(PROJECT),
    "tools/build build": Here(PROJECT),
    "meson configure build -Dunity=off": Here(PROJECT),
    # The build directory of this check, in which nothing is compiled or installed. Generated cases run as a sample.
    "ninja -C build tests/dataplane/relay/relay_test": Here(BUILD, {"-C build": "-C build -t query"}),
    "meson test -C build relay/schedule": Here(BUILD, {"-C build": "-C build --no-rebuild --logbase docs-commands"}),
    "meson test -C build --no-suite system": Here(BUILD, {"-C build": "-C build --no-rebuild --list"}),
    "meson install -C build": Here(INSTALL, {"-C build": "-C build --no-rebuild --destdir {root}"}),
    "ldconfig": Here(INSTALL, {"ldconfig": "ldconfig -n {libraries}"}),
    # Commands that cannot run inside the check.
    "./check": Elsewhere(".ci/run", "../check", SCRIPTS),
    "./check --quick": Elsewhere("tests/tools/run_checks_test.py", "--quick", SCRIPTS),
    "./check --seeds random": Elsewhere("tests/tools/run_checks_test.py", "random", SCRIPTS),
    "./demo": Elsewhere("tests/tools/fan_out_test.py", "tools/fan_out", SCRIPTS),
    # The two processes of this command need a core each.
    "build/bench/rdmc_perf rate --fabric dpdk --busy-poll": Elsewhere("bench/memif", '"rate"', SCRIPTS),
    "tests/fuzz/run -n 10000000 packet connection": Elsewhere("tests/fuzz/README.md", "## Executions", SCRIPTS),
    "tests/fuzz/run -n 0 --keep packet": Elsewhere("tests/fuzz/README.md", "## Executions", SCRIPTS),
    # `./check` runs the whole suite with the same options. Here, only the options and the names are compared.
    "tools/build build-tsan -Db_sanitize=thread -Db_lundef=false -Dwerror=false -Doptimization=1 -Ddebug=false "
    "-Dcpp_args=-g1 -- tests/lib/socket/socket_test": Elsewhere("tools/run_checks", "-Db_sanitize=thread", "sanitizer"),
    "TSAN_OPTIONS=suppressions=tests/thread_sanitizer.supp build-tsan/tests/lib/socket/socket_test --run_test=threads_test":
        Elsewhere("tools/run_checks", "tests/thread_sanitizer.supp", "sanitizer"),
}
