// Connects a node with others whose addresses are known, for applications that have no way of their own to
// carry offers: over TLS 1.3, proved by a cluster key that all hold (rdmc_bcast keygen makes one).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <rdmc/certificates.hpp>
#include <rdmc/group.hpp>

namespace rdmc {

/// Where a node listens while the mesh is made. Names are resolved; its own must be a numeric address.
struct MeshMember {
  NodeId node{};
  std::string host;
  std::uint16_t port = 0;
};

/// With a key file, certificates, or insecure: one of the three.
struct MeshOptions {
  std::string key_file;
  Certificates certificates;
  /// No key and no protection. You must ask for it.
  bool insecure = false;
  Duration timeout = seconds(30);  ///< for all of them to be there
  /// The name of their job, the same for all members. A process of another job that listens at the address of
  /// a member is not taken for it. At most 255 bytes.
  std::string job;
};

/// Connects `node` with all other members; they call it, too, at about the same time. Blocks, at most for the
/// timeout. The thread that drives a node without a thread of its own calls it, and the node has its turns
/// meanwhile. Errors: invalid_argument (we are no member; a member twice; not one of the three; a job's name
/// that is too long; an upcall, or a thread that does not drive the node), those of reading the key or
/// certificates and of listening, authentication (another key), not_found (another job is where a member
/// should be), timed_out (naming who is missing), protocol_error.
Result<void> connect_mesh(Node& node, std::span<const MeshMember> members, const MeshOptions& options);

}  // namespace rdmc
