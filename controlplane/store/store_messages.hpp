// Between bytes and what clients and nodes of the embedded store say, with every bound checked. Stateless.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "controlplane/store/view_map.hpp"

namespace rdmc::store {

struct ReadRequest {
  std::string group;
};
struct ListRequest {};
struct WatchRequest {
  std::string group;
};

struct Request {
  std::uint64_t id = 0;
  std::variant<ReadRequest, SwapCommand, ListRequest, WatchRequest> body;
};

struct Reply {
  std::uint64_t id = 0;
  bool swapped = false;
  std::vector<view::GroupView> groups;  ///< what stands: of the group asked for, or all
  bool hint = false;                    ///< that one changed, to a view of which only the epoch is said
  std::string refused;                  ///< not empty: nothing was done here
};

view::Bytes encode(const Request& request);
view::Bytes encode(const Reply& reply);
/// Errors: protocol_error.
Result<Request> decode_request(std::span<const std::byte> bytes);
Result<Reply> decode_reply(std::span<const std::byte> bytes);

}  // namespace rdmc::store
