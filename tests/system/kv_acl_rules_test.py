#!/usr/bin/env python3
"""Gives random rules of ACL SETUSER, and commands to users with such rules, to rdmc_kv and to Debian's redis-server. The replies,
ACL LIST, ACL GETUSER and ACL CAT must be the same. RDMC_SEED=N chooses other rules. Without redis-server, the test is skipped."""
import os
import random
import shutil
import sys
import tempfile
import unittest

from kv_differential_test import Connection, Server

KV = os.environ["RDMC_KV"]
REDIS = shutil.which("redis-server")
SEED = int(os.environ.get("RDMC_SEED", os.environ.get("RDMC_FIRST_SEED", "1")))
ROUNDS = int(os.environ.get("RDMC_ROUNDS", "400"))
USERS = [b"default", b"alice", b"bob"]
SINGLE = ["on", "off", "nopass", "resetpass", "reset", "allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands", "nocommands",
          "clearselectors", "sanitize-payload", "skip-sanitize-payload", "+@all", "-@all", "~*", "&*", "ON", "AllKeys", "", ">one", ">two", "<one",
          "#" + "0a" * 32, "!" + "0a" * 32, "#" + "0A" * 32, "#12", "~a:*", "~b", "~", "%R~r*", "%W~w*", "%RW~x", "%rw~y", "%", "%~", "%R", "%RR~a",
          "%Q~a", "~has space", "&news.*", "&chan", "&", "+@nothing", "-@nothing", "+nothing", "-nothing", "+select|0", "+select|1", "-select|0",
          "+get|", "+get|a|b", "+config|nothing", "-config|nothing", "+config|get|x", "+", "-", "nonsense", "(", ")", "()", "(~s* +get)",
          "(%R~r* &c +@read)", "(+@all -@dangerous ~*)", "(nonsense)", "( ~t", "+set )", "(~* ~x)", "(>one)", "+GET", "-Config|Get", "+@String"]
# The test sends these as a user, or asks about them by ACL DRYRUN.
REQUESTS = ["get a", "set a 1", "set a 1 get", "set w1 1 get", "mget a b w1", "copy r1 w1", "copy w1 r1", "lpush b 1", "hget a f", "hexists w f", "del a b x",
            "publish chan x", "publish news.a x", "subscribe chan", "psubscribe news.*", "psubscribe n*", "config get save", "config set save x",
            "client id", "client getname", "client kill type master", "select 0", "select 1", "acl whoami", "acl list", "acl nothing", "sort a by w* get r*", "sort r1 store w1",
            "zunionstore w1 2 r1 r2", "zunion 1 r1", "blpop b x 0", "bitfield r1 get u8 0", "bitfield r1 set u8 0 1", "eval x 1 a",
            "georadius r1 1 1 1 m store w1", "xread streams a b 0 0", "migrate h 1 \"\" 0 1 keys a b", "memory usage a", "object encoding a", "getex r1",
            "nothing", "ping", "auth x", "hello 3", "multi", "exec", "get", "lcs a b", "rename x y", "object freq w", "command count", "function list"]


def comparable(reply):
    """The order in which Redis writes single commands and lists them is random."""
    if isinstance(reply, bytes):
        return b" ".join(sorted(reply.split(b" "))) if b" " in reply and b"@all" in reply else reply
    if isinstance(reply, list):
        return [comparable(one) for one in reply]
    return reply


@unittest.skipUnless(REDIS, "there is no redis-server")
class RulesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.servers = [Server([KV, "serve", "--listen", "HOST:PORT"]),
                        Server([REDIS, "--bind", "HOST", "--port", "PORT", "--save", "", "--dir", folder.name, "--enable-debug-command", "yes"])]
        for server in self.servers:
            self.addCleanup(server.end)
        self.trace = []

    def both(self, *words):
        words = [word if isinstance(word, bytes) else word.encode() for word in words]
        self.trace.append(b" ".join(words))
        replies = []
        for server in self.servers:
            server.connection.send([words])
            replies.append(server.connection.read())
        return replies

    def same(self, *words):
        ours, theirs = (comparable(reply) for reply in self.both(*words))
        if ours != theirs:
            setup = "\n".join(repr(line) for line in self.trace[-12:])
            self.fail(f"RDMC_SEED={SEED}:\n{setup}\n  rdmc_kv: {ours}\n  redis:   {theirs}")
        return ours

    def rule(self, rng, names, categories):
        kind = rng.random()
        if kind < 0.5:
            return rng.choice(SINGLE)
        sign = rng.choice("+-")
        return sign + (rng.choice(names) if kind < 0.8 else "@" + rng.choice(categories))

    def test_the_categories_have_the_same_commands(self):
        categories = self.same("acl", "cat")
        for category in categories[1:]:
            ours, theirs = self.both("acl", "cat", category)
            self.assertEqual(sorted(ours[1:]), sorted(theirs[1:]), category)

    def test_the_same_rules_give_the_same_users_and_the_same_permissions(self):
        rng = random.Random(SEED)
        categories = [name.decode() for name in self.same("acl", "cat")[1:]]
        names = sorted({name.decode() for category in categories for name in self.both("acl", "cat", category)[1][1:]})
        for server in self.servers:
            for user in USERS[1:]:
                server.connection.send([[b"acl", b"setuser", user]])
                server.connection.read()
        for _ in range(ROUNDS):
            user = rng.choice(USERS[1:])
            rules = [self.rule(rng, names, categories) for _ in range(rng.randint(0, 5))]
            words = ["acl", "setuser", user, *rules]
            ours, theirs = self.both(*words)
            # An error names a rule. We name a password by its digest, because events have no passwords.
            if isinstance(ours, Connection.Error) and "'<" in str(theirs) or "The password you are trying" in str(theirs):
                self.assertIsInstance(ours, Connection.Error, (words, ours, theirs))
            else:
                self.assertEqual(ours, theirs, words)
            self.same("acl", "getuser", user)
            self.same("acl", "list")
            for request in rng.sample(REQUESTS, 8):
                self.same("acl", "dryrun", user, *request.replace('"', "").split(" "))

    def test_users_get_the_same_replies(self):
        rng = random.Random(SEED + 1)
        categories = [name.decode() for name in self.same("acl", "cat")[1:]]
        names = ["get", "set", "mget", "lpush", "config", "config|get", "client|getname", "select", "publish", "acl|whoami", "sort", "zunion", "object"]
        ours_has = ["eval", "georadius", "xread", "migrate", "function", "hello", "auth", "multi", "exec", "subscribe", "psubscribe", "client kill", "client id", "save",
                    "acl list", "nothing", "blpop", "config", "acl nothing", "object", "memory", "command"]
        requests = [one for one in REQUESTS if not any(one.startswith(name) for name in ours_has)]
        for _ in range(ROUNDS // 10):
            self.same("acl", "setuser", "bob", "reset", "on", "nopass")
            for _ in range(rng.randint(1, 8)):
                words = ["acl", "setuser", "bob", self.rule(rng, names, categories)]
                if not words[-1].startswith("<"):
                    self.both(*words)
            self.both("acl", "setuser", "bob", "on", "nopass")
            old = [server.connection for server in self.servers]
            for server in self.servers:
                server.connection = Connection(server.host, server.port)
            self.same("auth", "bob", "any")
            for request in rng.sample(requests, 12):
                self.same(*request.split(" "))
            for server, connection in zip(self.servers, old):
                server.connection.close()
                server.connection = connection


if __name__ == "__main__":
    if not REDIS:
        print("redis-server is not installed")
        sys.exit(77)
    print(f"RDMC_SEED={SEED}")
    unittest.main(verbosity=2)
