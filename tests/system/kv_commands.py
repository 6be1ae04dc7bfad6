"""Random commands for a key-value service, with edge cases, and which parts of replies can be compared."""

# Few keys of each type, so that commands meet values; also of other types than they want.
KEYS = {"s": [b"s%d" % i for i in range(5)], "h": [b"h%d" % i for i in range(4)], "l": [b"l%d" % i for i in range(4)],
        "e": [b"e%d" % i for i in range(5)], "z": [b"z%d" % i for i in range(5)], "b": [b"b%d" % i for i in range(3)],
        "y": [b"y%d" % i for i in range(3)]}
ALL_KEYS = [key for keys in KEYS.values() for key in keys if not key.startswith(b"y")]
SMALL = [b"0", b"1", b"2", b"3", b"5", b"10", b"-1", b"-2", b"-5", b"100"]
ODD_INTEGERS = [b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"abc", b"", b"1.5", b"+1", b" 1", b"01", b"-0",
                b"4294967296"]
REALS = [b"0", b"1", b"-1", b"1.5", b"3.14159", b"2.0", b"-0.25", b"1e3", b"inf", b"-inf", b"+inf", b"1e300", b"0.1", b"-0", b"100"]
ODD_REALS = [b"nan", b"abc", b"", b"1.2.3", b" 1", b"0x10", b"1e"]
# Their replies have no order, or have another one there.
UNORDERED = {b"smembers", b"sunion", b"sinter", b"sdiff", b"keys", b"hgetall", b"hkeys", b"hvals"}
SCANS = {b"hscan", b"sscan", b"zscan", b"scan"}
RANDOM = {b"spop", b"srandmember", b"hrandfield", b"zrandmember", b"randomkey"}


def shape(value):
    """What a reply with random parts must have in common with another one."""
    if isinstance(value, list):
        return [value[0], len(value)]
    return type(value).__name__ if isinstance(value, bytes) else value


def without_negative_zero(value):
    """A small sorted set has no negative zero there, but a large one has."""
    if isinstance(value, list):
        return [without_negative_zero(one) for one in value]
    if isinstance(value, tuple):
        return tuple(without_negative_zero(one) for one in value)
    return b"0" if value == b"-0" else value


def comparable(words, reply):
    name = words[0].lower()
    if isinstance(reply, str):
        return reply
    if name in (b"expiretime", b"ttl") and isinstance(reply, int):
        return max(reply, 0) > 0 or reply
    if name[:1] in b"z":
        reply = without_negative_zero(reply)
    if name == b"object" and isinstance(reply, bytes):
        # INCRBYFLOAT and SORT have effects on encodings there.
        return {b"embstr": b"int", b"skiplist": b"listpack"}.get(reply, reply)
    if name in RANDOM:
        return shape(reply)
    if name in SCANS and isinstance(reply, list):
        return sorted(reply[2][1:], key=repr) if name != b"hscan" else sorted(map(repr, reply[2][1:]))
    if name in UNORDERED and isinstance(reply, list):
        if name == b"hgetall" and reply[0] == b"*":
            return sorted(zip(reply[1::2], reply[2::2]))
        return sorted(reply[1:], key=repr)
    if name in (b"sort", b"sort_ro") and isinstance(reply, list) and any(b"\0" in one for one in reply if one):
        # The order there is that of strcoll(), for which a string ends at a zero byte.
        return len(reply)
    return reply


class Generator:
    def __init__(self, rng):
        self.rng = rng
        self.commands = [method for name, method in sorted(type(self).__dict__.items()) if name.startswith("do_")]

    def command(self):
        rng = self.rng
        words = rng.choice(self.commands)(self)
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        # A changed SPOP would have a random effect, and the scores of sorted sets y must stay equal.
        odd = 1 if words[0] == b"spop" or any(word in KEYS["y"] for word in words) else rng.random()
        if odd < 0.01:
            words.insert(rng.randrange(1, len(words) + 1), rng.choice([b"x", b"1", b"NX", b"COUNT", b"withscores"]))
        elif odd < 0.02 and len(words) > 1:
            del words[rng.randrange(1, len(words))]
        if rng.random() < 0.3:
            words[0] = words[0].upper()
        return words

    # -- Words --

    def key(self, kind):
        return self.rng.choice(KEYS[kind]) if kind == "y" or self.rng.random() < 0.97 else self.rng.choice(ALL_KEYS)

    def keys(self, kind, most=3):
        return [self.key(kind) for _ in range(self.rng.randint(1, most))]

    def numbered(self, kind, most=3):
        keys = self.keys(kind, most)
        number = len(keys) if self.rng.random() < 0.96 else self.rng.choice([0, -1, 10, b"x", len(keys) + 1])
        return [number, *keys]

    def integer(self):
        return self.rng.choice(SMALL) if self.rng.random() < 0.97 else self.rng.choice(ODD_INTEGERS)

    def number(self, most=1000):
        return self.rng.randint(-most, most) if self.rng.random() < 0.9 else self.integer()

    def real(self):
        rng = self.rng
        if rng.random() < 0.03:
            return rng.choice(ODD_REALS)
        return rng.choice(REALS) if rng.random() < 0.4 else rng.randint(-20, 20) / rng.choice([1, 1, 2, 4, 3])

    def member(self, most=40):
        rng, kind = self.rng, self.rng.random()
        if kind < 0.6:
            return b"m%d" % rng.randrange(most)
        if kind < 0.9:
            return b"%d" % rng.randrange(-most, most)
        if kind < 0.98:
            return rng.choice([b"", b"a", b"ab", b"\xff\x01", b"12345678901", b"99999", b"007", b"y" * 64, b"z" * 65, b"foo bar"])
        return b"x" * rng.choice([130, 300, 3000])

    def value(self):
        return self.member() if self.rng.random() < 0.7 else self.number()

    def option(self, *words, chance=0.3):
        """One of the options, or nothing."""
        if self.rng.random() > chance:
            return []
        chosen = self.rng.choice(words)
        return list(chosen) if isinstance(chosen, (list, tuple)) else [chosen]

    # -- Keys --

    def do_key(self):
        key = self.rng.choice(ALL_KEYS)
        return self.rng.choice([("del", key), ("unlink", key), ("exists", key, self.rng.choice(ALL_KEYS)), ("type", key), ("dbsize",),
                                ("persist", key), ("ttl", key), ("keys", self.rng.choice(["*", "h*", "[sz]?", "l[^2]"])),
                                ("object", "encoding", key), ("object", "encoding", key), ("touch", key), ("randomkey",)])

    def do_two_keys(self):
        kind = self.rng.choice("shlezby")
        one, two = self.key(kind), self.key(kind)
        return self.rng.choice([("rename", one, two), ("renamenx", one, two), ("copy", one, two), ("copy", one, two, "replace")])

    def do_expire(self):
        key = self.rng.choice(ALL_KEYS)
        return self.rng.choice([("expire", key, 100000, *self.option("nx", "xx")),
                                ("pexpireat", key, self.rng.randrange(10 ** 14, 10 ** 14 + 5), *self.option("gt", "lt", "nx", ("nx", "xx"))),
                                ("expireat", key, self.rng.choice([1, 9999999999])), ("expiretime", key)])

    def do_scan(self):
        return ["scan", 0, "count", 1000, *self.option(["match", "h*"], ["type", "zset"], ["type", "nope"])]

    # -- Strings --

    def do_string(self):
        key = self.key("s")
        return self.rng.choice([
            ("set", key, self.value(), *self.option("nx", "xx", "get", "keepttl", ("ex", 1000), ("px", 100000), ("ex", self.rng.choice([0, -1, b"x"])))),
            ("get", key), ("getset", key, self.value()), ("append", key, self.value()), ("strlen", key), ("getdel", key),
            ("setnx", key, self.value()), ("mget", *self.keys("s")), ("mset", key, self.value(), self.key("s"), self.value()),
            ("setrange", key, self.rng.randrange(50), self.value()), ("getrange", key, self.integer(), self.integer()),
            ("incr", key), ("decr", key), ("incrby", key, self.integer()), ("decrby", key, self.integer()),
            ("incrbyfloat", key, self.real()), ("getex", key, *self.option("persist", ("ex", 500))), ("substr", key, 0, 3)])

    def do_lcs(self):
        return ["lcs", self.key("s"), self.key("s"), *self.option("len", ("idx", "withmatchlen"), ("idx", "minmatchlen", 2))]

    # -- Bits --

    def offset(self):
        return self.rng.randrange(200) if self.rng.random() < 0.95 else self.integer()

    def do_bits(self):
        key = self.key("b")
        unit = self.option("bit", "byte", chance=0.5)
        return self.rng.choice([
            ("setbit", key, self.offset(), self.rng.choice([0, 1, 1, 2])), ("setbit", key, self.offset(), self.rng.choice([0, 1])),
            ("getbit", key, self.offset()), ("bitcount", key), ("bitcount", key, self.number(30), self.number(30), *unit),
            ("bitpos", key, self.rng.choice([0, 1, 1, 2])), ("bitpos", key, self.rng.choice([0, 1]), self.number(20)),
            ("bitpos", key, self.rng.choice([0, 1]), self.number(20), self.number(100), *unit),
            ("bitop", self.rng.choice(["and", "or", "xor", "not"]), key, *self.keys("b", 2)), ("get", key),
            ("set", key, self.rng.choice([b"\xff\xff\xff", b"\x00\x00\x01", b"foobar", b"", b"\xff\xf0\x00"])), ("strlen", key)])

    def do_bitfield(self):
        rng, words = self.rng, []
        for _ in range(rng.randint(1, 3)):
            kind = rng.choice(["u8", "i8", "u1", "i64", "u63", "i5", "u13", "u64", "i65", "x8", "i16"])
            where = rng.choice([rng.randrange(100), "#%d" % rng.randrange(10)])
            words += rng.choice([("get", kind, where), ("set", kind, where, self.number(300)), ("incrby", kind, where, self.number(300)),
                                 ("overflow", rng.choice(["wrap", "sat", "fail"]))])
        return [rng.choice(["bitfield", "bitfield", "bitfield_ro"]), self.key("b"), *words]

    # -- Hashes --

    def do_hash(self):
        key, name = self.key("h"), self.member()
        return self.rng.choice([
            ("hset", key, name, self.value()), ("hset", key, name, self.value(), self.member(), self.value()),
            ("hmset", key, name, self.value()), ("hsetnx", key, name, self.value()), ("hget", key, name),
            ("hmget", key, name, self.member()), ("hdel", key, name), ("hdel", key, *[self.member() for _ in range(5)]), ("hlen", key),
            ("hstrlen", key, name), ("hexists", key, name), ("hgetall", key), ("hkeys", key), ("hvals", key),
            ("hincrby", key, name, self.integer()), ("hincrbyfloat", key, name, self.real()), ("hrandfield", key),
            ("hrandfield", key, self.integer() if self.rng.random() < 0.5 else 3, *self.option("withvalues")),
            ("hscan", key, 0, "count", 1000, *self.option(["match", "m1*"]))])

    # -- Lists --

    def do_list(self):
        key, side, other = self.key("l"), self.rng.choice(["left", "right"]), self.rng.choice(["left", "RIGHT"])
        return self.rng.choice([
            ("lpush", key, self.value()), ("rpush", key, self.value(), self.value()), ("lpush", key, *[self.member(8) for _ in range(6)]),
            ("lpushx", key, self.value()), ("rpushx", key, self.value()), ("lpop", key, *self.option(0, 1, 2, 100, -1, "x")),
            ("rpop", key, *self.option(0, 1, 2, 100)), ("llen", key), ("lrange", key, 0, -1), ("lrange", key, self.integer(), self.integer()),
            ("lindex", key, self.number(20)), ("lset", key, self.number(20), self.value()), ("lrem", key, self.integer(), self.member(8)),
            ("linsert", key, self.rng.choice(["before", "AFTER", "x"]), self.member(8), self.value()),
            ("ltrim", key, self.rng.choice([0, 0, 1, -20]), self.rng.choice([-1, -2, 20, 30])),
            ("lpos", key, self.member(8), *self.option(("rank", self.integer())), *self.option(("count", self.integer())),
             *self.option(("maxlen", self.integer()))),
            ("lmove", key, self.key("l"), side, other), ("rpoplpush", key, self.key("l")),
            ("lmpop", *self.numbered("l"), side, *self.option(("count", self.integer())))])

    # -- Sets --

    def do_set(self):
        key = self.key("e")
        return self.rng.choice([
            ("sadd", key, self.member()), ("sadd", key, *[self.member() for _ in range(5)]), ("sadd", key, self.rng.randrange(20)),
            ("srem", key, self.member(), self.member()), ("scard", key), ("sismember", key, self.member()),
            ("smismember", key, self.member(), self.member()), ("smembers", key), ("smove", key, self.key("e"), self.member()),
            ("srandmember", key), ("srandmember", key, self.integer()), ("spop", b"nokey"), ("spop", key, 1000), ("spop", key, 0),
            ("sscan", key, 0, "count", 1000, *self.option(["match", "m1*"])), ("sinter", *self.keys("e")), ("sunion", *self.keys("e")),
            ("sdiff", *self.keys("e")), ("sinterstore", key, *self.keys("e")), ("sunionstore", key, *self.keys("e")),
            ("sdiffstore", key, *self.keys("e")), ("sintercard", *self.numbered("e"), *self.option(("limit", self.integer())))])

    # -- Sorted sets --

    def score_bound(self):
        return self.rng.choice([b"-inf", b"+inf", b"(%d" % self.rng.randint(-20, 20), b"%d" % self.rng.randint(-20, 20), b"x", b"(1.5", b""])

    def name_bound(self):
        return self.rng.choice([b"-", b"+", b"[" + self.member(), b"(" + self.member(), b"x"] if self.rng.random() < 0.2 else
                               [b"-", b"+", b"[m2", b"(m3", b"[1", b"(2"])

    def limit(self):
        return self.option(("limit", self.integer(), self.integer()))

    def do_sorted_set(self):
        key = self.key("z")
        return self.rng.choice([
            ("zadd", key, *self.option("nx", "xx", ("xx", "gt"), "lt", "gt", ("nx", "gt"), chance=0.4), *self.option("ch", "incr"), self.real(),
             self.member()),
            ("zadd", key, *[word for _ in range(5) for word in (self.real(), self.member())]), ("zincrby", key, self.real(), self.member()),
            ("zrem", key, self.member(), self.member()), ("zcard", key), ("zscore", key, self.member()),
            ("zmscore", key, self.member(), self.member()), ("zrank", key, self.member()), ("zrevrank", key, self.member()),
            ("zpopmin", key, *self.option(0, 1, 3, -1)), ("zpopmax", key, *self.option(0, 1, 3)),
            ("zmpop", *self.numbered("z"), self.rng.choice(["min", "max", "x"]), *self.option(("count", self.integer()))),
            ("zrandmember", key), ("zrandmember", key, self.integer(), *self.option("withscores")),
            ("zscan", key, 0, "count", 1000, *self.option(["match", "m1*"]))])

    def do_range(self):
        # Ranges of members have a meaning only if all scores are equal.
        key, same, scores = self.key("z"), self.rng.choice(KEYS["y"]), self.option("withscores", chance=0.5)
        by_score, by_name = (self.score_bound(), self.score_bound()), (self.name_bound(), self.name_bound())
        return self.rng.choice([
            ("zrange", key, self.integer(), self.integer(), *self.option("rev"), *scores), ("zrange", key, 0, -1, *scores),
            ("zrange", key, *by_score, "byscore", *self.option("rev"), *scores, *self.limit()),
            ("zrange", same, *by_name, "bylex", *self.option("rev"), *self.limit(), *self.option("withscores", chance=0.05)),
            ("zrevrange", key, self.integer(), self.integer(), *scores), ("zrangebyscore", key, *by_score, *scores, *self.limit()),
            ("zrevrangebyscore", key, *by_score, *scores, *self.limit()), ("zrangebylex", same, *by_name, *self.limit()),
            ("zrevrangebylex", same, *by_name, *self.limit()), ("zcount", key, *by_score), ("zlexcount", same, *by_name),
            ("zrangestore", key, self.key("z"), *by_score, "byscore", *self.option("rev"), *self.limit()),
            ("zrangestore", key, self.key("z"), 0, 30), ("zadd", same, 0, self.member(), 0, self.member()),
            ("zadd", same, 0, self.member()), ("zremrangebyrank", key, self.rng.randint(-3, 3), self.rng.randint(-3, 3)),
            ("zremrangebyscore", key, 5, self.score_bound()), ("zremrangebylex", same, "[m3", self.name_bound())])

    def do_algebra(self):
        kind = self.rng.choice("zzze")
        keys = self.numbered(kind)
        weights = self.option(("weights", *[self.real() for _ in keys[1:]]))
        aggregate = self.option(("aggregate", self.rng.choice(["sum", "min", "max", "x"])))
        scores = self.option("withscores", chance=0.5)
        name = self.rng.choice(["zunion", "zinter"])
        return self.rng.choice([
            (name, *keys, *weights, *aggregate, *scores), (name + "store", self.key("z"), *keys, *weights, *aggregate),
            ("zdiff", *keys, *scores), ("zdiffstore", self.key("z"), *keys), ("zintercard", *keys, *self.option(("limit", self.integer())))])

    # -- SORT --

    def do_sort(self):
        words = ["sort", self.key(self.rng.choice("lez")), *self.option("alpha", chance=0.7), *self.option("desc", "asc"),
                 *self.option(("limit", self.integer(), self.integer())), *self.option(("get", "#"), ("get", "s*"), ("get", "h*->m1"))]
        if self.rng.random() < 0.3:
            words += ["store", self.key("l")]
        elif self.rng.random() < 0.2:
            words[0] = "sort_ro"
        return words

    # -- HyperLogLog --

    def do_count_distinct(self):
        return self.rng.choice([("pfadd", b"p1", self.member()), ("pfadd", b"p2", self.member(), self.member(1000)), ("pfcount", b"p1"),
                                ("pfcount", b"p1", b"p2"), ("pfmerge", b"p3", b"p1", b"p2"), ("pfcount", b"p3")])
