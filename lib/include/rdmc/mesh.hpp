// Connects a node with other nodes whose addresses are known, for applications that cannot transmit offers
// themselves. The offers are sent over TLS 1.3. All processes must hold the same cluster key (`rdmc_bcast
// keygen` makes one).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <rdmc/certificates.hpp>
#include <rdmc/group.hpp>

namespace rdmc {

/// The address at which a node listens while the mesh is made. The host may be a name or a numeric address.
/// But for the node that calls connect_mesh(), it must be a numeric address.
struct MeshMember {
  NodeId node{};
  std::string host;
  std::uint16_t port = 0;
};

/// The options of connect_mesh(). Exactly one of `key_file`, `certificates` and `insecure` must be given.
struct MeshOptions {
  std::string key_file;
  Certificates certificates;
  /// If true, the mesh uses no key and has no protection.
  bool insecure = false;
  Duration timeout = seconds(30);  ///< the time limit for connecting with all members
  /// The name of the members' job, which must be the same at all members. It protects against a process of
  /// another job that listens at the address of a member. At most 255 bytes.
  std::string job;
};

/// Connects `node` with all other members. The other members must also call this function, at about the same
/// time. It blocks for at most the timeout. If the node has no thread of its own, the thread that drives the
/// node must call this function, and the node gets its turns during the call.
/// Errors: invalid_argument if this node is not a member, a member appears twice, not exactly one of the
/// three key options is given, the mesh is insecure although the node encrypts, the job's name is too long,
/// or the caller is an upcall or a thread that does not drive the node; authentication if a member holds
/// another key; not_found if a process of another job listens at the address of a member; timed_out if
/// members are still missing after the timeout (the text names them); protocol_error; and the errors of
/// reading the key or the certificates and of listening.
Result<void> connect_mesh(Node& node, std::span<const MeshMember> members, const MeshOptions& options);

}  // namespace rdmc
