// Membership options for the processes that a launcher has started. The first of these processes run the view
// store.
#include "controlplane/connect/resolver.hpp"
#include "controlplane/view/messages.hpp"
#include "lib/include/rdmc/membership.hpp"

namespace rdmc {
namespace {

constexpr std::size_t kStoreNodes = 3;

/// The address at which the others find a member. If a name has several addresses, this is the one that the
/// system prefers.
Result<Address> address_of(const MeshMember& member) {
  if (auto numeric = parse_address(member.host, member.port)) return *numeric;
  const auto found = control::look_up(member.host, member.port);
  if (!found) return std::unexpected(found.error());
  if (found->empty()) return fail(Errc::not_found, "'" + member.host + "' has no address");
  return found->front();
}

}  // namespace

Result<MembershipOptions> membership_options(const LaunchedJob& job) {
  MembershipOptions options{.group = "job " + job.mesh.job,
                            .name = "rank " + std::to_string(value_of(job.id)),
                            .address = job.address,
                            .store = {},
                            .key_file = job.mesh.key_file,
                            .certificates = job.mesh.certificates,
                            .insecure = job.mesh.insecure};
  options.address.port = 0;
  if (auto valid = view::check_group(options.group); !valid) return std::unexpected(valid.error());
  const std::size_t nodes = job.members.size() < kStoreNodes ? 1 : kStoreNodes;
  for (std::size_t rank = 0; rank < nodes && rank < job.members.size(); ++rank) {
    const auto address = address_of(job.members[rank]);
    if (!address) return std::unexpected(address.error());
    options.store.nodes.push_back(*address);
    if (job.members[rank].node == job.id) options.store.runs = rank;
  }
  return options;
}

}  // namespace rdmc
