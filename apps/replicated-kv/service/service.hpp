// The key-value service of one server: it executes the requests of its clients. It is a state machine without
// sockets, threads and clocks.
//
// A server that is alone executes a request at once. The servers of a replicated service execute writes in
// their order (rdmc/replicated_state.hpp): a server puts the writes of its clients into batches, submits them
// as events, and executes the events of all servers. A reply leaves when the event is stable. Replies to one
// client leave in the order of its requests. The main executes a read at once, if the client has no earlier
// request without a reply, and if the main may answer. All other reads go the way of writes. docs/kv.md says
// what this promises.
//
// One thread uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "apps/replicated-kv/access/acl_file.hpp"
#include "apps/replicated-kv/access/acl_log.hpp"
#include "apps/replicated-kv/access/users.hpp"
#include "apps/replicated-kv/commands/command.hpp"
#include "apps/replicated-kv/service/client.hpp"
#include "apps/replicated-kv/service/client_memory.hpp"
#include "apps/replicated-kv/service/events.hpp"
#include "apps/replicated-kv/service/figures.hpp"
#include "apps/replicated-kv/service/moment.hpp"
#include "apps/replicated-kv/service/pubsub.hpp"
#include "apps/replicated-kv/service/settings.hpp"
#include "apps/replicated-kv/service/statistics.hpp"
#include "apps/replicated-kv/service/victims.hpp"
#include "lib/include/rdmc/replicated_state.hpp"
#include "lib/state/agreed_clock.hpp"

namespace rdmc::kv {

/// The order of events, for a server that is not alone: rdmc::ReplicatedState has the same functions.
class Order {
 public:
  virtual ~Order() = default;
  virtual Result<std::uint64_t> submit(std::span<const std::byte> event) = 0;
  virtual bool may_answer(std::uint64_t applied) const = 0;
};

/// These are the facts about the process that INFO shows.
struct ProcessFacts {
  std::size_t resident_bytes = 0;
  std::uint64_t user_microseconds = 0, system_microseconds = 0;
};

struct ServiceOptions {
  bool is_alone = true;  ///< there are no other servers, and no order
  /// Requests wait for this time while the service cannot execute them. Then they get an error.
  Milliseconds unavailable_after = 2000;
  /// The service answers while this number of servers has the whole state.
  std::size_t least_replicas = 1;
  std::size_t servers = 1;        ///< of the service, also those that do not run
  std::uint64_t seed = 0;         ///< for hash tables and random choices of reads
  Milliseconds started_at = 0;    ///< on the steady clock, for INFO
  Milliseconds started_wall = 0;  ///< on the wall clock, for LASTSAVE
  /// For statistics only: a steady clock, and what the process needs. They may be missing.
  std::function<std::uint64_t()> microseconds{};
  std::function<ProcessFacts()> process{};
  /// The ACL file, or null. It must exist longer than the service.
  AclFile* acl_file = nullptr;
  /// Fills memory with numbers that nobody can guess, for ACL GENPASS. Returns false if it cannot.
  std::function<bool(std::span<std::byte>)> fill_random{};
};

/// The facts about the other servers that INFO shows.
struct ServiceInfo {
  /// The address of a server for clients.
  struct Server {
    std::string host;
    std::uint16_t port = 0;
  };
  std::uint64_t view_epoch = 0;
  Server main;                 ///< the host is empty if it is not known
  std::vector<Server> others;  ///< the other servers of the view
  std::uint16_t port = 0;      ///< of this server
  std::uint64_t pid = 0;
};

/// The server's log tells this about itself.
struct LogInfo {
  bool is_there = false;
  std::optional<Milliseconds> copy_began_at{};  ///< on the steady clock, if a copy is being written
  std::optional<Milliseconds> copy_took{};      ///< by the last copy that this process has ended
  bool has_copy_failed = false;                 ///< the last attempt has failed
  std::int64_t copied_at = 0;                   ///< the newest copy, in seconds since 1970; 0: there is none
  std::uint64_t bytes = 0;                      ///< of the events after the newest copy
  bool hangs = false;                           ///< the disk does not finish a write
  std::string failure;                          ///< why clients may not write at present; or empty
};

class Service {
 public:
  explicit Service(const ServiceOptions& options);
  ~Service();

  // -- The clients --

  /// A new client. It exists until disconnect().
  Client& connect(std::string address, Moment now);
  void disconnect(Client& client);
  /// Executes the requests that the parser of the client has. Output appears in Client::output, perhaps
  /// later.
  void execute(Client& client, Moment now);
  /// True if no more should be read from the client at present.
  bool is_full(const Client& client) const;
  /// True if the driver should look whether the client sends something. If it does while is_full() is true,
  /// the driver must call want_to_send().
  bool may_receive(const Client& client) const;
  void want_to_send(Client& client) { memory_.want_to_send(client.number, now_.steady); }
  /// A connection was refused. For INFO.
  void reject_connection() { ++rejected_connections_; }
  /// The connection has received this number of bytes from the client, or has sent them to it.
  void received(Client& client, std::size_t bytes);
  void sent(Client& client, std::size_t bytes);
  /// The server ends soon. No more is read from clients, so that those that have sent requests get their
  /// replies.
  void begin_to_end() { is_ending_ = true; }
  /// No reply is missing any more, except for commands that wait for keys.
  bool has_answered_all() const;
  /// Must be called at the end of each turn. Submits what has been collected.
  void end_turn(Moment now);
  /// The time at which end_turn() must be called next, if nothing else happens, on the steady clock.
  std::optional<Milliseconds> next_deadline() const;
  /// Returns the clients whose output has changed, and forgets them.
  std::vector<std::uint64_t> take_changed();
  /// Returns null if there is no such client.
  Client* find(std::uint64_t number);
  std::size_t clients() const { return clients_.size(); }
  /// The bytes that the clients with much memory need (ClientMemory::total()).
  std::size_t memory_of_clients() const { return memory_.total(); }

  // -- The order, for a server that is not alone --

  /// Begins to take part in the order, under this number, or under another one after end().
  void begin(Order& order, std::uint64_t server);
  void on_event(const OrderedEvent& event);
  void on_stable(std::uint64_t position);
  void on_status(const ReplicaStatus& status, Moment now);
  /// Drops the state. It is empty then, and the users are those of set_first_users().
  void clear_state();
  /// Writes the state. With what this server knows about the usage of keys, it is for another server, or for
  /// the disk of this one.
  void save(const std::function<void(std::vector<std::byte>)>& write, bool with_usage = false) const;
  /// Returns false if the loaded bytes are wrong.
  bool on_load(const LoadState& load);
  /// This says what becomes of the state when the order ends.
  enum class AtEnd : std::uint8_t {
    drop_state,  ///< the server begins again without a state
    keep_state   ///< the server begins again with this state, because its log has it
  };
  /// The order has ended for this server. Requests wait until begin(). After AtEnd::drop_state, the users are
  /// those of the former state until the servers agree on users again.
  void end(Moment now, AtEnd state);
  /// The servers of the newest view. The main forgets the clients of other servers.
  void on_servers(const std::vector<std::uint64_t>& servers);
  void set_info(const ServiceInfo& info) { info_ = info; }
  /// The views cannot change, or can change again. While they cannot, a server may have lost the others. It
  /// finds that out with an event of its own, so that is_available in INFO is right without requests, too.
  void on_views(bool can_change) { can_views_change_ = can_change; }
  /// Until end_reading_disk(), the state is read from the disk, and requests get the error LOADING.
  void begin_reading_disk() { is_reading_disk_ = true; }
  void end_reading_disk(Moment now) {
    is_reading_disk_ = false;
    waits_for_others_since_ = now.steady;
  }
  void set_log_info(LogInfo info);
  /// True if a client has requested a new copy of the state since the last call.
  bool take_copy_request() { return std::exchange(wants_copy_, false); }

  // -- Access control --

  /// The users of this server's command line, before it has clients. The servers of a service agree on those
  /// of one of them.
  void set_first_users(Users users);
  /// Must be called after the state was read from the disk, if the command line gives users: they replace the
  /// users of the state, also at the other servers. Until then, requests get the error LOADING.
  void replace_users(const Users& users);
  const Users& users() const { return users_; }
  /// Returns what an operator should know, and was not returned by an earlier call.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }
  /// Returns what has happened to the service, and was not returned by an earlier call.
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }

  /// The limit of memory that this server proposes as the first main, in the words of CONFIG SET. A server
  /// that is alone has this limit. The words must be valid.
  void set_memory_limit(std::string_view most, std::string_view policy);

  /// All events below this position are executed here. Not every position has an event.
  std::uint64_t executed_below() const { return std::max(applied_, stable_); }
  /// Returns what a monitor such as Prometheus wants to know.
  std::vector<Figure> figures() const;

  Databases& databases() { return *databases_; }
  Settings& settings() { return settings_; }
  const ReplicaStatus& status() const { return status_; }
  /// Requests for data have been answered since this server was started, or could have been.
  bool has_begun() const { return is_alone() || has_been_available_; }
  /// The state is on its way from another server.
  bool is_loading() const { return loader_ != nullptr; }

 private:
  using ClientCommand = void (Service::*)(Client&, Arguments, ReplyWriter&);
  struct Batch {
    std::uint64_t number = 0;
    Bytes bytes;
    std::size_t submitted = 0;  // of `bytes`
    Milliseconds since = 0;
    // What it says about clients must be said again if the batch is given up: which of them watch no keys
    // after it, and which of them wait for no key, with an error or without one.
    std::vector<std::uint64_t> unwatching;
    std::vector<std::pair<std::uint64_t, bool>> stopping;
  };
  struct InFlight {
    std::uint64_t event = 0;  // the number of its last event
    std::uint64_t batch = 0;
    Milliseconds since = 0;
  };

  static const std::unordered_map<std::string_view, ClientCommand>& client_table();

  bool is_alone() const { return options_.is_alone; }
  bool is_available() const;
  /// Requests would be answered now, and not be refused because they wait for too long.
  bool answers_requests() const { return is_alone() || (is_available() && !has_waited_too_long()); }
  bool is_too_old(Milliseconds since) const;
  bool has_waited_too_long() const;
  bool has_waited_too_long(const Client& client) const;
  bool starts() const;
  std::string_view unavailable_error() const;
  void list(Client& client);
  /// Returns false if the request must wait.
  bool handle(Client& client, Arguments words);
  const Command* check(Client& client, Arguments words);
  bool refuses_writes(Client& client, const Command& command);
  void reply_error(Client& client, std::string_view error);
  void resume_held();
  void run_client_command(Client& client, const Command& command, Arguments words);
  bool run_data_command(Client& client, const Command& command, Arguments words);
  struct RunOptions {
    std::uint32_t database;
    std::uint64_t random;
    std::uint64_t user;
  };
  void run(const Command& command, const RunOptions& options, Arguments words, ReplyWriter& reply);
  void run(const Command& command, Call& call);
  bool try_local_read(Client& client, const Command& command, Arguments words);
  void queue_command(Client& client, Arguments words);
  bool run_exec(Client& client);
  bool run_watch(Client& client, Arguments words);
  void unwatch(Client& client);
  void leave_multi(Client& client);

  // Statistics: service/accounting.cpp.
  /// While this exists, the client is the one whose command is executed. For the slow log.
  class Executing {
   public:
    Executing(const Client*& executing, const Client* client)
        : executing_(executing), before_(std::exchange(executing, client)) {}
    ~Executing() { executing_ = before_; }
    Executing(const Executing&) = delete;
    Executing& operator=(const Executing&) = delete;

   private:
    const Client*& executing_;
    const Client* const before_;
  };
  std::uint64_t microseconds() const { return options_.microseconds ? options_.microseconds() : 0; }
  void note_executed(const Command& command, Arguments words, std::uint64_t took, bool has_failed,
                     const ReplyWriter& reply);
  void run_for_client(Client& client, const Command& command, Arguments words, ReplyWriter& reply);
  void look_at_rates();
  void note_rejected(const Command& command, const ReplyWriter& reply);
  void reject(const Command& command, std::string_view error, ReplyWriter& reply);
  void refuse(Client& client);

  // The limit of memory: service/eviction.cpp.
  void set_limit(const MemoryLimit& limit);
  bool refuses(const Command& command, ReplyWriter& reply);
  std::vector<Victims::Victim> choose_victims();
  void make_room();
  void order_evictions();
  void propose_limit();
  void look_at_own_limit();
  void execute_eviction(VarintReader& in, std::uint64_t server);
  void execute_first_limit(VarintReader& in);
  void note_use(const EncodedCommand& read);
  bool must_wait_for_evictions(const Command& command) const;
  bool may_submit_as_main() const;

  // Memory of clients: service/client_limits.cpp.
  void progress(Client& client, std::size_t bytes);
  void account(Client& client);
  void lose(Client& client);
  void check_limits();
  void end_idle_clients();
  // Replies that wait for space: service/reply_space.cpp.
  void execute_for_size(const Client& client, const Command& command, Arguments words, ReplyWriter& reply);
  bool is_reply_long(const Client& client, const Command& command, Arguments words);
  bool is_reply_of_transaction_long(const Client& client);
  bool may_take_space(const Client& client) const;
  bool wait_for_space(Client& client);
  std::optional<Milliseconds> next_space_at() const;
  void serve_waiting_for_space();
  void expect_reply(Client& client, const Command& command, Arguments words);
  void evict(std::uint64_t client);
  bool is_busy(const Client& client) const;
  static std::size_t expected_bytes(const Client& client);
  ReplyWriter writer_for(std::string& out, bool is_resp3) const;
  void put_ready(Client& client, std::deque<Answer>::iterator before, Answer answer);
  void apply_settings();
  void execute_requests(Client& client);

  // Answers.
  void answer(Client& client, std::string_view bytes);
  Answer& answer_in_batch(Client& client, bool is_write);
  void flush(Client& client);
  void flush_stable();

  // Batches.
  Bytes& batch_for(std::uint64_t client, EntryKind kind);
  void submit_batches();
  void give_up(bool has_ended);
  void execute_alone();
  void forget_departed();
  void take_status(const ReplicaStatus& status);
  void look_at_availability();
  void forget_state();
  bool may_tick() const;
  void put_tick();
  void probe();
  void look_at_stable();
  void execute_batch(std::uint64_t server, std::uint64_t batch, std::span<const std::byte> bytes,
                     const OrderedEvent& event);
  void execute_entry(VarintReader& in, std::uint64_t server, std::uint64_t batch);
  /// The origin of a request, as all servers know it.
  struct Origin {
    ClientId client;
    std::uint64_t user = 0;  ///< the number, or 0
  };
  bool execute_command(VarintReader& in, Origin origin, Client* client, Answer* answer, ReplyWriter& reply);
  void execute_transaction(VarintReader& in, Origin origin, Client* client, ReplyWriter& reply);
  void execute_watch(VarintReader& in, const Origin& origin, Client* client, ReplyWriter& reply);
  Answer* answer_of(Client* client, std::uint64_t batch);
  void finish(Client& client, Answer& answer);
  std::uint64_t next_random();

  // Commands that wait: service/waiting.cpp.
  void run_waiting_command(Client& client, Arguments words);
  bool execute_waiting_command(const Origin& origin, const Command& command, const EncodedCommand& encoded,
                               std::uint64_t random, Answer* answer, ReplyWriter& reply);
  void serve_waiters();
  void execute_stop(const ClientId& id, bool is_error);
  void stop_waiting(std::uint64_t client, bool is_error);
  void stop_late_waits();
  void resume(Client& client);
  Answer* waiting_answer(const ClientId& id);

  // Access control: service/access.cpp, service/logins.cpp and service/acl_commands.cpp.
  /// A command of a client is executed at one of these places: at once at this server; in the order of
  /// events, at this server alone or at all servers; or in the order because the client logs in.
  enum class Place : std::uint8_t { here, order_local, order_all, order_login };
  static Place place_of(const Command& command, Arguments words);
  static bool is_for_all_servers(const Command& command, Arguments words);
  bool is_authenticated(const Client& client) const { return client.user != 0 || users_.is_open(); }
  /// The client may make the server keep much. While the disk is read, the users are not known yet.
  bool may_keep_much(const Client& client) const { return !is_reading_disk_ && is_authenticated(client); }
  bool are_users_agreed() const { return users_.are_agreed() && !has_former_users_; }
  void limit_parser(Client& client) const;
  void use_default_user(Client& client) const;
  const User* user_of(std::uint64_t number) const;
  bool deny(Client& client, const Command& command, Arguments words);
  /// Returns the text of an error if the user may not give the command. `client` gets an entry in the log; it
  /// is null at other servers.
  enum class Occasion : std::uint8_t { now, queued, at_exec };
  std::optional<std::string> denial(std::uint64_t user, Arguments words, Client* client, Occasion occasion);
  bool may_read_all_keys(const Command& command, std::uint64_t user, Arguments words) const;
  /// The words without secrets, if the command has some, or the text of an error.
  std::expected<std::optional<std::vector<std::string>>, std::string> without_secrets(const Command& command,
                                                                                      Arguments words) const;
  bool run_in_order(Client& client, const Command& command, Arguments words);
  void execute_client_command(const Command& command, Arguments words, Origin& origin, Client* client,
                              ReplyWriter& reply);
  // Changes that all servers make: service/parameters.cpp and service/acl_commands.cpp.
  static std::vector<std::string> config_set_with_digest(Arguments words);
  void change_parameters(Arguments words, Client* client, ReplyWriter& reply);
  void change_users(Arguments words, Client* client, ReplyWriter& reply);
  void change_at_all_servers(Arguments words, Client* client, ReplyWriter& reply);
  const User* log_in(Arguments words) const;
  void log_wrong_password(Client& client, std::string_view command, std::string_view user);
  void put_first_users(Bytes& batch) const;
  void pass_time();
  void look_at_clocks();
  void propose_users();
  void execute_first_users(std::string_view bytes, std::uint64_t replaced);
  void load_users(Users users);
  void users_have_changed(const Client* issuer);
  void look_at_own_users();
  void end_client(Client& client, const Client* issuer);
  void same_members(Client&, Arguments, ReplyWriter&);
  void acl(Client&, Arguments, ReplyWriter&);
  void show_acl_log(Arguments, ReplyWriter&);

  // Channels: service/pubsub_commands.cpp.
  template <PubSub::Kind kind>
  void subscribe(Client&, Arguments, ReplyWriter&);
  template <PubSub::Kind kind>
  void unsubscribe(Client&, Arguments, ReplyWriter&);
  void pubsub(Client&, Arguments, ReplyWriter&);
  void deliver_messages();
  void deliver(Client& client, std::string text);

  // Commands of the client: service/client_commands.cpp and service/server_commands.cpp.
  void auth(Client&, Arguments, ReplyWriter&);
  void rewrite_log(Client&, Arguments, ReplyWriter&);
  void last_save(Client&, Arguments, ReplyWriter&);
  void client(Client&, Arguments, ReplyWriter&);
  void command(Client&, Arguments, ReplyWriter&);
  void config(Client&, Arguments, ReplyWriter&);
  void debug(Client&, Arguments, ReplyWriter&);
  void echo(Client&, Arguments, ReplyWriter&);
  void function(Client&, Arguments, ReplyWriter&);
  void hello(Client&, Arguments, ReplyWriter&);
  void info(Client&, Arguments, ReplyWriter&);
  void latency(Client&, Arguments, ReplyWriter&);
  void memory(Client&, Arguments, ReplyWriter&);
  void memory_usage(Client&, Arguments, ReplyWriter&);
  void ping(Client&, Arguments, ReplyWriter&);
  void quit(Client&, Arguments, ReplyWriter&);
  void reset(Client&, Arguments, ReplyWriter&);
  void role(Client&, Arguments, ReplyWriter&);
  void select(Client&, Arguments, ReplyWriter&);
  void slowlog(Client&, Arguments, ReplyWriter&);
  void time_of_day(Client&, Arguments, ReplyWriter&);
  void wait(Client&, Arguments, ReplyWriter&);
  void unwatch_in_multi(Client&, Arguments, ReplyWriter&);
  std::string describe(const Client& client) const;
  std::string name_of_user(const Client& client) const;

  // Sections of INFO: service/info.cpp.
  std::string info_text(Arguments sections) const;
  void info_server(std::string& text) const;
  void info_clients(std::string& text) const;
  void info_memory(std::string& text) const;
  void info_persistence(std::string& text) const;
  std::int64_t last_save_time() const;
  void info_stats(std::string& text) const;
  void info_replication(std::string& text) const;
  void info_cpu(std::string& text) const;
  void info_commands(std::string& text) const;
  void info_keyspace(std::string& text) const;

  const ServiceOptions options_;
  std::unique_ptr<Databases> databases_;
  std::unique_ptr<Loader> loader_;
  Settings settings_;
  ServiceInfo info_;

  std::unordered_map<std::uint64_t, std::unique_ptr<Client>> clients_;
  std::uint64_t last_client_ = 0;
  std::vector<std::uint64_t> changed_, held_;
  LogInfo log_;
  bool wants_copy_ = false;
  std::uint64_t changes_of_copy_ = 0, copied_changes_ = 0;  // Databases::changes() when a copy was begun
  ClientMemory memory_;
  RequestParser::Limits parser_limits_;  // of clients that are authenticated
  Victims victims_;
  bool is_evicting_ = false;         // an event of this main that evicts keys is on its way
  bool has_proposed_limit_ = false;  // an event of this main with its limit is on its way
  Statistics statistics_;
  SlowLog slow_log_;
  std::int64_t slow_after_ = 0;  // in microseconds; -1: no command is slow
  std::size_t most_slow_ = 0;
  const Client* executing_ = nullptr;
  Rate request_rate_, input_rate_, output_rate_;
  std::uint64_t input_bytes_ = 0, output_bytes_ = 0, local_reads_ = 0, refused_requests_ = 0;
  std::size_t most_used_ = 0;
  bool is_ending_ = false;
  Milliseconds next_limit_look_ = 0;
  std::deque<std::uint64_t> waiting_for_space_;  // clients
  std::uint64_t last_with_space_ = 0;            // the last one of them whose request was executed, and when
  Milliseconds last_space_at_ = 0;
  Milliseconds idle_after_ = 0, next_idle_look_ = 0;  // idle_after_ is 0 if clients may be idle for ever
  PubSub pubsub_;
  std::set<std::pair<Milliseconds, std::uint64_t>> waits_;  // the ends of waits, and the clients
  std::vector<std::uint64_t> resumed_;                      // clients that no longer wait

  Moment now_;               // at the beginning of the call
  Milliseconds agreed_ = 0;  // the time of the newest event, which never goes back
  state::AgreedClock clock_;
  bool is_behind_ = false;  // the wall clock is behind the time of the events
  std::uint64_t random_ = 0;
  std::uint64_t requests_ = 0, connections_ = 0;
  std::uint64_t rejected_connections_ = 0;
  std::uint64_t output_limit_disconnections_ = 0, query_limit_disconnections_ = 0, evicted_clients_ = 0;

  Users users_;
  Bytes own_users_;          // of the command line, as Users::save() writes them
  std::string first_users_;  // the same, as an ACL file
  /// The users belong to a state that this server has dropped. They are the users until the next ones come.
  bool has_former_users_ = false;
  Bytes new_users_;  // of replace_users(), until the servers have them
  bool has_proposed_users_ = false;
  AclLog acl_log_;
  std::vector<std::string> warnings_, news_;
  bool answers_ = false;             // of look_at_availability(), when it looked last
  std::uint32_t told_complete_ = 0;  // the servers with all data that the log has spoken of last
  std::optional<Milliseconds> looks_at_own_users_at_;  // when look_at_own_users() has something to do
  std::optional<MemoryLimit> own_limit_{};  // of the command line, until it is known whether it counts

  // The order. The server is not in it while `order_` is null.
  Order* order_ = nullptr;
  std::uint64_t server_ = 0;
  ReplicaStatus status_;
  std::optional<Milliseconds> unavailable_since_;
  Milliseconds waits_for_others_since_ = 0;  // for LOADING
  bool has_been_available_ = false, is_reading_disk_ = false, can_views_change_ = true;
  Milliseconds last_event_at_ = 0;          // or when this server has looked last whether one becomes stable
  Milliseconds seen_ = 0;                   ///< the agreed time at the end of the last turn
  std::uint64_t applied_ = 0, stable_ = 0;  // the events below these positions
  // If the events below `awaited_` are not stable, this server waits for them since then.
  std::uint64_t awaited_ = 0;
  Milliseconds awaited_since_ = 0;
  std::uint64_t last_batch_ = 0;
  std::deque<Batch> batches_;  // that were not submitted yet; the last one grows
  std::deque<InFlight> in_flight_;
  std::size_t waiting_bytes_ = 0;         // of batches_
  std::map<std::uint64_t, Bytes> parts_;  // of batches of other servers whose end has not come
  /// A client that has an answer which waits for a position.
  struct Unstable {
    std::uint64_t position, client;
    Milliseconds since;
  };
  std::deque<Unstable> unstable_;
  Milliseconds next_departed_look_ = 0;
  std::vector<std::uint64_t> servers_;  // of the newest view
  EncodedCommand decoded_;
};

}  // namespace rdmc::kv
