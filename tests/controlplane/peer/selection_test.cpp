// Two processes dial each other several times, each time at any moment. Their messages can arrive in many
// orders. In every order, one connection must remain, both processes must use this connection, and no other
// connection may have carried data.
#include "controlplane/peer/selection.hpp"

#include <boost/test/unit_test.hpp>
#include <deque>
#include <random>

BOOST_AUTO_TEST_SUITE(selection_test)

using namespace rdmc;
using namespace rdmc::peer;

namespace {

using Number = Selection::Number;

/// Use means that the other side has opened a channel. End means that the other side has closed the
/// connection.
struct Use {};
struct End {};
using Said = std::variant<Hello, Known, Choice, Use, End>;

Identity identity_of(std::size_t side) {
  return {.incarnation = {std::byte{static_cast<std::uint8_t>(side + 1)}}, .process = {}};
}

/// Both processes, and all messages in flight between them. In each direction, a connection keeps the order
/// of its messages. Messages on different connections can overtake each other. Side 0 decides which
/// connection remains.
class World {
 public:
  /// Side `dialers[i]` dials connection i at any time.
  explicit World(const std::vector<std::size_t>& dialers) {
    for (const std::size_t dialer : dialers) {
      Link& link = links_.emplace_back();
      link.dialer = dialer;
    }
  }

  /// A possible next event on connection `link`. If the connection is not dialed yet, the event is the dial.
  /// Otherwise side `to` gets its next message.
  struct Event {
    std::size_t link, to;
  };
  std::vector<Event> possible() const {
    std::vector<Event> all;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (!links_[i].is_dialed) all.push_back({i, 0});
      for (const std::size_t to : {0, 1})
        if (!links_[i].under_way[to].empty()) all.push_back({i, to});
    }
    return all;
  }

  void happen(const Event& event) {
    Link& link = links_[event.link];
    if (!link.is_dialed) return dial(event.link);
    const Said said = link.under_way[event.to].front();
    link.under_way[event.to].pop_front();
    if (!link.is_open[event.to]) return;
    const Number number = link.numbers[event.to];
    Selection& self = selections_[event.to];
    if (std::holds_alternative<End>(said)) return end(event.link, event.to, false);
    if (std::holds_alternative<Use>(said)) return self.on_use(number);
    if (const auto* const hello = std::get_if<Hello>(&said)) {
      if (link.dialer == event.to) return follow(event, self.on_answer(number, *hello));
      say(event, self.answer(number, *hello, token(2 * event.link + 1)));
    } else if (const auto* const known = std::get_if<Known>(&said)) {
      follow(event, self.on_known(number, *known));
    } else {
      follow(event, self.on_choice(number, std::get<Choice>(said)));
    }
  }

  /// Breaks connection `link`. Side `side` notices this first.
  void break_at(std::size_t link, std::size_t side) {
    if (!links_[link].is_dialed || !links_[link].is_open[side]) return;
    has_broken_ = true;
    end(link, side, true);
  }

  std::size_t links() const { return links_.size(); }

  /// Must be called when no message is in flight. Returns a text that describes the error, or an empty text.
  std::string wrong() const {
    std::optional<std::size_t> stays;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const Link& link = links_[i];
      if (link.is_open[0] != link.is_open[1]) return "a connection that is open at one side alone";
      if (link.is_open[0] && stays) return "two connections stay";
      if (link.is_open[0]) stays = i;
      if (!link.found && !link.was_broken) return "a dial that does not end";
    }
    if (has_broken_) return wrong_;
    if (!stays) return "no connection stays";
    for (const Link& link : links_)
      if (link.found != stays) return "a dial that finds another connection than the one that stays";
    return wrong_;
  }

 private:
  struct Link {
    std::size_t dialer = 0;
    bool is_dialed = false, was_broken = false, is_used = false;
    std::array<bool, 2> is_open{};
    std::array<Number, 2> numbers{};
    std::array<std::deque<Said>, 2> under_way;  // Indexed by the receiving side.
    std::optional<std::size_t> found;           // The connection that this dial has found.
  };

  static Token token(std::size_t number) {
    return {std::byte{static_cast<std::uint8_t>(number)}, std::byte{1}};
  }

  void dial(std::size_t index) {
    Link& link = links_[index];
    link.is_dialed = true;
    link.is_open = {true, true};
    // Each side gives the connection a number when it first knows the connection. So the two sides may number
    // the connections in different orders.
    link.numbers[link.dialer] = ++last_[link.dialer];
    const Hello hello =
        selections_[link.dialer].dial(link.numbers[link.dialer], token(2 * index), token(100 + index));
    link.numbers[1 - link.dialer] = ++last_[1 - link.dialer];
    link.under_way[1 - link.dialer].push_back(hello);
  }

  void say(const Event& event, Said said) {
    links_[event.link].under_way[1 - event.to].push_back(std::move(said));
  }

  void follow(const Event& event, const Selection::Step& step) {
    if (step.say) std::visit([&](const auto& one) { say(event, one); }, *step.say);
    if (!step.use) return;
    Link& link = links_[event.link];
    const auto used = std::ranges::find_if(
        links_, [&](const Link& each) { return each.is_dialed && each.numbers[event.to] == *step.use; });
    if (!used->is_open[event.to]) wrong_ = "a dial finds a connection that is over";
    link.found = static_cast<std::size_t>(used - links_.begin());
    used->is_used = true;
    if (*link.found != event.link) end(event.link, event.to, true);
    used->under_way[1 - event.to].push_back(Use{});
  }

  void end(std::size_t index, std::size_t side, bool tells) {
    Link& link = links_[index];
    if (link.is_used && !has_broken_) wrong_ = "a connection that was used ends";
    link.is_open[side] = false;
    // If this side has dialed the connection and the dial is not complete, the dial ends together with the
    // connection.
    if (link.dialer == side && !link.found) link.was_broken = has_broken_;
    selections_[side].on_end(link.numbers[side]);
    if (tells) link.under_way[1 - side].push_back(End{});
  }

  std::array<Selection, 2> selections_{Selection(identity_of(0)), Selection(identity_of(1))};
  std::array<Number, 2> last_{};
  std::vector<Link> links_;
  bool has_broken_ = false;
  std::string wrong_;
};

constexpr std::uint32_t kSeeds = 20'000;

World some_world(std::mt19937& random, std::size_t most) {
  std::vector<std::size_t> dialers(1 + random() % most);
  for (std::size_t& dialer : dialers) dialer = random() % 2;
  return World(dialers);
}

/// Tries every order of the events that are possible from here on. Returns the number of orders.
std::size_t try_all(const World& world) {
  const auto possible = world.possible();
  if (possible.empty()) {
    if (const auto wrong = world.wrong(); !wrong.empty()) BOOST_REQUIRE_MESSAGE(false, wrong);
    return 1;
  }
  std::size_t orders = 0;
  for (const auto& event : possible) {
    World next = world;
    next.happen(event);
    orders += try_all(next);
  }
  return orders;
}

}  // namespace

BOOST_AUTO_TEST_CASE(in_every_order_one_connection_stays_and_carries_everything) {
  std::size_t orders = 0;
  for (const auto& dialers : {std::vector<std::size_t>{0}, {1}, {0, 0}, {1, 1}, {0, 1}})
    orders += try_all(World(dialers));
  for (const auto& dialers : {std::vector<std::size_t>{0, 0, 0}, {0, 0, 1}}) {
    World world(dialers);
    // All connections are dialed at the same moment.
    for (std::size_t link = 0; link < 3; ++link) world.happen({link, 0});
    orders += try_all(world);
  }
  BOOST_TEST(orders > 100'000U);
}

BOOST_AUTO_TEST_CASE(of_many_connections_one_stays_and_carries_everything) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    World world = some_world(random, 6);
    for (auto possible = world.possible(); !possible.empty(); possible = world.possible())
      world.happen(possible[random() % possible.size()]);
    BOOST_REQUIRE_MESSAGE(world.wrong().empty(), "seed " << seed << ": " << world.wrong());
  }
}

BOOST_AUTO_TEST_CASE(one_stays_at_most_also_when_connections_break_in_the_middle) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    std::mt19937 random(seed);
    World world = some_world(random, 6);
    for (auto possible = world.possible(); !possible.empty(); possible = world.possible()) {
      if (random() % 6 == 0) world.break_at(random() % world.links(), random() % 2);
      world.happen(possible[random() % possible.size()]);
    }
    BOOST_REQUIRE_MESSAGE(world.wrong().empty(), "seed " << seed << ": " << world.wrong());
  }
}

BOOST_AUTO_TEST_CASE(who_only_has_the_name_of_a_process_that_we_know_does_not_get_its_connection) {
  for (const std::size_t ours : {0, 1}) {
    Selection self(identity_of(ours));
    const Identity name = identity_of(1 - ours);
    const Hello question = self.dial(1, Token{std::byte{1}}, Token{std::byte{2}});
    auto step = self.on_answer(1, {.identity = name, .nonce = {}, .secret = {}, .proofs = {}});
    if (step.say) step = self.on_choice(1, {});
    BOOST_TEST((step.use == 1U));
    // The impostor listens on connection 2 and dials connection 3. It repeats messages that this process has
    // sent earlier.
    (void)self.dial(2, Token{std::byte{3}}, Token{std::byte{4}});
    const Hello said = self.answer(3, {.identity = name, .nonce = {}, .secret = {}, .proofs = {}}, Token{});
    BOOST_TEST(said.proofs.size() == 1U);
    step = self.on_answer(2, {.identity = name, .nonce = {}, .secret = {}, .proofs = said.proofs});
    if (step.say) step = self.on_choice(2, {});
    BOOST_TEST((step.use == 2U));
    BOOST_TEST(!std::get<Choice>(*self.on_known(3, {said.proofs}).say).proof.has_value());
    BOOST_TEST((question.secret != said.secret));
  }
}

BOOST_AUTO_TEST_SUITE_END()
