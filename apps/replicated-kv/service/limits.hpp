// The limits of a server, and the error that several parts of Service reply with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "apps/replicated-kv/data/database.hpp"

namespace rdmc::kv {

/// Keys that expire in one step. So a step takes at most about a millisecond.
inline constexpr std::size_t kMostExpired = 1000;
/// While this many bytes of batches wait, requests wait.
inline constexpr std::size_t kMostWaitingBytes = 8 << 20;
/// While a client has this many bytes that it does not read, or requests that wait, nothing more is read from
/// it.
inline constexpr std::size_t kMostOutputBytes = 1 << 20, kMostAnswers = 4096;
/// A client that is not authenticated, and has this many bytes that it does not read, loses its connection.
inline constexpr std::size_t kMostUnreadUnauthenticated = 32 << 10;
/// A client whose logins have failed so often, without one that succeeds, loses its connection.
inline constexpr std::uint32_t kMostFailedLogins = 16;
/// A client may have reads in batches whose replies have about this many bytes. A reply counts as at least
/// kLeastReplyBytes. While all clients together need too much, each may have one such read.
inline constexpr std::size_t kMostReadBytes = 4 << 20, kLeastReplyBytes = 4 << 10;
/// Clients that need too much memory are looked for in this interval.
inline constexpr Milliseconds kLookForVictims = 1000;
/// Clients that are idle for longer than the parameter "timeout" are looked for in this interval.
inline constexpr Milliseconds kLookForIdle = 1000;
/// While a command of a client waits, this many bytes of later requests are read.
inline constexpr std::size_t kMostRequestBytes = 1 << 20;
/// The commands of a transaction may need this many bytes of memory, and may have this number.
inline constexpr std::size_t kMostQueuedBytes = 64 << 20, kMostQueued = 1 << 20;
/// The interval at which the main looks for servers that have departed.
inline constexpr Milliseconds kLookForDeparted = 500;

/// Keys that one event evicts.
inline constexpr std::size_t kMostEvicted = 1000;
/// Requests that need memory wait for evictions while keys and values need this part of the limit more than
/// it, and at least kLeastExcess bytes.
inline constexpr std::size_t kExcessPart = 8, kLeastExcess = 64 << 10;

inline constexpr std::string_view kUsersWait =
    "LOADING The users of --acl-file or --requirepass-file are not in the service yet";
inline constexpr std::string_view kReadsDisk = "LOADING This server reads its data from the disk";
inline constexpr std::string_view kGetsData = "LOADING This server gets the data from another server";
inline constexpr std::string_view kStarts =
    "LOADING This server has just started, and the servers have not agreed on the data yet";
/// A server that has never answered requests says for this time after its start, or after it has read its
/// disk, that it starts. After that, it says that something is wrong. Several hosts that begin a service
/// again need about 8 s.
inline constexpr Milliseconds kStartsWithin = 30'000;
/// A server that has got the data from another server waits for this time before its log says that the
/// service has other users than its own file.
inline constexpr Milliseconds kLooksAtOwnUsersAfter = 2000;
/// In the first of these intervals, the main without requests finds out for all servers whether they would be
/// able to execute some. While the views cannot change, each server does so in the second one.
inline constexpr Milliseconds kProbeEvery = 5000, kProbeAloneEvery = 500;
inline constexpr std::string_view kOutOfMemory = "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr std::string_view kClusterDown =
    "CLUSTERDOWN This server does not reach the majority of the servers, or has no data";

}  // namespace rdmc::kv
