#include "controlplane/launch/hostlist.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "dataplane/base/address.hpp"

namespace rdmc::control {
namespace {

constexpr std::size_t kMaxHostName = 253;  // RFC 1035 allows 255 octets for the encoded form of a name.
constexpr std::size_t kMaxNumberDigits = 9;
// The largest number of pieces of one item. The pieces are the brackets and the texts between them.
constexpr std::size_t kMaxPieces = 64;
// The largest total length of the texts between the brackets of one item.
constexpr std::size_t kMaxLiteral = 2 * kMaxHostName;

/// One item of a list before it is expanded, with its position for error messages.
struct Item {
  std::string_view text;
  std::size_t position;  ///< The position within the list or the line, counted from 1.
  const std::string& origin;
};

struct NamedHost {
  std::string name;
  std::optional<std::uint16_t> port;
};

std::unexpected<Error> wrong(const Item& item, std::size_t offset, std::string_view what) {
  return fail(Errc::invalid_argument, fmt::format("{}, position {}, in '{}': {}", item.origin,
                                                  item.position + offset, item.text.substr(0, 80), what));
}

/// One number or range of numbers in a bracket. For example, [01-05,7] has two of them.
struct Range {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  std::size_t width = 0;  ///< Numbers are padded with zeros to this many digits. 0 means no padding.
  std::size_t size() const { return std::size_t{high} - low + 1; }
};

/// A part of an item: a literal text, or the choices of a bracket.
struct Piece {
  std::string_view literal;
  std::vector<Range> ranges;
  std::size_t choices() const {
    if (ranges.empty()) return 1;
    std::size_t sum = 0;
    for (const auto& range : ranges) sum += range.size();
    return sum;
  }
};

Result<Range> parse_range(const Item& item, std::size_t begin, std::size_t end) {
  const auto text = item.text.substr(begin, end - begin);
  const auto dash = text.find('-');
  const auto low = text.substr(0, dash);
  const auto high = dash == std::string_view::npos ? low : text.substr(dash + 1);
  Range range;
  for (const auto& [digits, value] : {std::pair(low, &range.low), std::pair(high, &range.high)}) {
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
      return wrong(item, begin, "a bracket holds numbers and ranges of numbers, as in [01-05,7]");
    if (digits.size() > kMaxNumberDigits) return wrong(item, begin, "a number has at most 9 digits");
    std::from_chars(digits.data(), digits.data() + digits.size(), *value);
  }
  if (range.high < range.low) return wrong(item, begin, "the range runs backwards");
  if (low.size() > 1 && low.front() == '0')
    range.width = low.size();
  else if (high.size() > 1 && high.front() == '0' && high.size() != low.size())
    return wrong(item, begin, "the range's end is padded with zeros, its start is not");
  return range;
}

Result<std::vector<Piece>> parse_pieces(const Item& item) {
  std::vector<Piece> pieces;
  const auto text = item.text;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == ']') return wrong(item, at, "']' without '['");
    if (text[at] != '[') {
      const auto end = std::min(text.find_first_of("[]", at), text.size());
      pieces.push_back({text.substr(at, end - at), {}});
      at = end;
      continue;
    }
    const auto end = text.find_first_of("[]", at + 1);
    if (end == std::string_view::npos) return wrong(item, at, "'[' without ']'");
    if (text[end] == '[') return wrong(item, end, "brackets do not nest");
    if (text.substr(at, end - at).find(':') != std::string_view::npos) {
      pieces.push_back({text.substr(at, end + 1 - at), {}});  // An IPv6 address keeps its brackets.
    } else {
      Piece piece;
      for (std::size_t begin = at + 1; begin <= end;) {
        const auto stop = std::min(text.find(',', begin), end);
        auto range = parse_range(item, begin, stop);
        if (!range) return std::unexpected(range.error());
        piece.ranges.push_back(*range);
        begin = stop + 1;
      }
      pieces.push_back(std::move(piece));
    }
    at = end + 1;
  }
  return pieces;
}

Result<std::uint16_t> parse_port(const Item& item, std::string_view text) {
  std::uint32_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0 || port > 65535 ||
      text.size() > 5)
    return wrong(item, 0, fmt::format("'{}' is not a port: 1 to 65535", text));
  return static_cast<std::uint16_t>(port);
}

/// Splits an expanded item into a host name and a port number, and checks both.
Result<NamedHost> parse_host(const Item& item, std::string_view text) {
  NamedHost host;
  const auto with_port = [&](std::string_view port) -> Result<void> {
    auto parsed = parse_port(item, port);
    if (!parsed) return std::unexpected(parsed.error());
    host.port = *parsed;
    return {};
  };
  const bool bracketed = text.starts_with('[');
  if (bracketed || std::ranges::count(text, ':') > 1) {
    const auto close = text.find(']');
    const auto literal = bracketed ? text.substr(1, close - 1) : text;
    const auto rest = bracketed ? text.substr(close + 1) : std::string_view{};
    const auto address = parse_address(fmt::format("[{}]", literal), kDefaultPort);
    if (literal.contains('%') || (address && is_link_local(*address)))
      return wrong(item, 0,
                   fmt::format("'{}' is link-local: the hosts tell each other where they are, and that means "
                               "something else on each; list an address that all of them reach",
                               literal));
    if (!address || !address->ipv6)
      return wrong(item, 0, fmt::format("'{}' is not an IPv6 address", literal));
    if (!rest.empty() && rest.front() != ':')
      return wrong(item, 0, "after an address in brackets comes :PORT or nothing");
    if (!rest.empty()) {
      if (auto parsed = with_port(rest.substr(1)); !parsed) return std::unexpected(parsed.error());
    }
    host.name = host_string(*address);
    return host;
  }
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    if (auto parsed = with_port(text.substr(colon + 1)); !parsed) return std::unexpected(parsed.error());
  }
  if (name.empty()) return wrong(item, 0, "the host's name is empty");
  if (name.size() > kMaxHostName) return wrong(item, 0, "the host's name is longer than 253 characters");
  const auto odd = std::ranges::find_if_not(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  });
  if (odd != name.end()) return wrong(item, 0, "a host's name has letters, digits, '-', '_' and '.' only");
  if (name.find_first_not_of("0123456789.") == std::string_view::npos && !parse_address(name, kDefaultPort))
    return wrong(item, 0, fmt::format("'{}' is not an IPv4 address", name));
  host.name = name;
  return host;
}

Result<void> expand_item(const Item& item, std::size_t max_hosts, std::vector<NamedHost>& out) {
  auto pieces = parse_pieces(item);
  if (!pieces) return std::unexpected(pieces.error());
  std::size_t literal = 0;
  for (const auto& piece : *pieces) literal += piece.literal.size();
  if (pieces->size() > kMaxPieces) return wrong(item, 0, "too many brackets in one item");
  if (literal > kMaxLiteral) return wrong(item, 0, "the host's name is longer than 253 characters");
  std::size_t total = 1;
  for (const auto& piece : *pieces) {
    // The sum and the product cannot overflow, because a range has at most 10^9 numbers, and each factor of
    // the product is at most max_hosts.
    const auto choices = piece.choices();
    if (choices > max_hosts || total * choices + out.size() > max_hosts)
      return wrong(item, 0, fmt::format("that makes more than {} hosts", max_hosts));
    total *= choices;
  }
  std::vector<std::string> texts{{}};
  for (const auto& piece : *pieces) {
    if (piece.ranges.empty()) {
      for (auto& text : texts) text += piece.literal;
      continue;
    }
    std::vector<std::string> longer;
    longer.reserve(texts.size() * piece.choices());
    for (const auto& text : texts) {
      for (const auto& range : piece.ranges) {
        for (std::uint32_t value = range.low; value <= range.high; ++value) {
          const auto digits = std::to_string(value);
          const auto zeros = range.width > digits.size() ? range.width - digits.size() : 0;
          longer.push_back(text + std::string(zeros, '0') + digits);
        }
      }
    }
    texts = std::move(longer);
  }
  for (const auto& text : texts) {
    auto host = parse_host(item, text);
    if (!host) return std::unexpected(host.error());
    out.push_back(std::move(*host));
  }
  return {};
}

/// The hosts of a list, before the excluded hosts are removed.
struct Lists {
  std::vector<NamedHost> included;
  std::vector<NamedHost> excluded;
};

Result<void> expand_list(std::string_view text, const std::string& origin, const ListReader* reader,
                         std::size_t max_hosts, Lists& lists);

Result<void> expand_file(const Item& item, std::string path, const ListReader& reader, std::size_t max_hosts,
                         Lists& lists) {
  if (path.empty()) return wrong(item, 0, "'^' is followed by a file's name");
  auto content = reader(path);
  if (!content) return std::unexpected(content.error());
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < content->size();) {
    const auto end = std::min(content->find('\n', begin), content->size());
    auto line = std::string_view(*content).substr(begin, end - begin);
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
      line.remove_suffix(1);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const auto origin = fmt::format("{} line {}", path, number);
    if (auto done = expand_list(line, origin, nullptr, max_hosts, lists); !done) return done;
  }
  return {};
}

Result<void> expand_list(std::string_view text, const std::string& origin, const ListReader* reader,
                         std::size_t max_hosts, Lists& lists) {
  for (std::size_t begin = 0; begin <= text.size();) {
    // A comma inside a bracket does not end the item.
    std::size_t end = begin;
    for (int depth = 0; end < text.size() && (text[end] != ',' || depth > 0); ++end) {
      if (text[end] == '[') ++depth;
      if (text[end] == ']' && depth > 0) --depth;
    }
    std::size_t first = begin;
    std::size_t last = end;
    while (first < last && (text[first] == ' ' || text[first] == '\t')) ++first;
    while (last > first && (text[last - 1] == ' ' || text[last - 1] == '\t')) --last;
    Item item{text.substr(first, last - first), first + 1, origin};
    begin = end + 1;
    if (item.text.empty()) return wrong(item, 0, "an item is empty");
    if (item.text.front() == '/') return wrong(item, 0, "regular expressions are not supported");
    if (item.text == "-" || item.text.front() == '^') {
      if (reader == nullptr) return wrong(item, 0, "a list from a file cannot name further files");
      auto path = item.text == "-" ? std::string("-") : std::string(item.text.substr(1));
      if (auto done = expand_file(item, std::move(path), *reader, max_hosts, lists); !done) return done;
      continue;
    }
    const bool excluded = item.text.front() == '-';
    if (excluded) {
      item.text.remove_prefix(1);
      ++item.position;
    }
    if (auto done = expand_item(item, max_hosts, excluded ? lists.excluded : lists.included); !done)
      return done;
  }
  return {};
}

}  // namespace

std::string to_string(const Host& host) {
  const bool ipv6 = host.name.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", host.name, host.port) : fmt::format("{}:{}", host.name, host.port);
}

Result<std::vector<Host>> expand_hostlist(std::string_view text, std::string_view exclude,
                                          const ListReader& reader, std::size_t max_hosts,
                                          std::uint16_t port) {
  Lists lists;
  if (auto done = expand_list(text, "hostlist", &reader, max_hosts, lists); !done)
    return std::unexpected(done.error());
  if (!exclude.empty()) {
    Lists other;
    if (auto done = expand_list(exclude, "exclusion", &reader, max_hosts, other); !done)
      return std::unexpected(done.error());
    if (!other.excluded.empty())
      return fail(Errc::invalid_argument, "an exclusion list cannot exclude: remove its '-'");
    std::ranges::move(other.included, std::back_inserter(lists.excluded));
  }
  std::set<std::string> names;
  std::set<Host> exact;
  for (auto& host : lists.excluded) {
    if (host.port)
      exact.insert({std::move(host.name), *host.port});
    else
      names.insert(std::move(host.name));
  }
  std::vector<Host> hosts;
  std::set<Host> seen;
  for (auto& named : lists.included) {
    Host host{std::move(named.name), named.port.value_or(port)};
    if (names.contains(host.name) || exact.contains(host)) continue;
    if (seen.insert(host).second) hosts.push_back(std::move(host));
  }
  if (hosts.empty()) return fail(Errc::invalid_argument, "the exclusions leave no host");
  return hosts;
}

}  // namespace rdmc::control
