#include "apps/replicated-kv/server/options.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "apps/program/metrics_server.hpp"
#include "apps/program/output.hpp"
#include "apps/replicated-kv/server/member_list.hpp"
#include "apps/replicated-kv/service/settings.hpp"
#include "apps/units/identity_options.hpp"
#include "apps/units/option_values.hpp"
#include "apps/units/units.hpp"
#include "controlplane/launch/hostlist.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::kv {

namespace {

constexpr std::uint16_t kDefaultPort = 6379;
constexpr std::size_t kMostMembers = 64;

/// Reads the hostlist of --members. Each item is the numeric client address of a server.
Result<std::vector<Address>> members_of(const std::string& list) {
  const auto no_file = [](const std::string& path) -> Result<std::string> {
    return fail(Errc::invalid_argument, "no file can be named, but '" + path + "' is");
  };
  const auto hosts = control::expand_hostlist(list, {}, no_file, kMostMembers, kDefaultPort);
  if (!hosts) return fail(hosts.error().code, "--members: " + hosts.error().what);
  std::vector<Address> members;
  for (const control::Host& host : *hosts) {
    const std::string text = host.name.contains(':') ? "[" + host.name + "]:" + std::to_string(host.port)
                                                     : host.name + ":" + std::to_string(host.port);
    const auto address = parse_address(text, 0);
    if (!address) return fail(Errc::invalid_argument, "--members: " + address.error().what);
    if (address->port > UINT16_MAX - kControlPortOffset)
      return fail(Errc::invalid_argument, "--members: " + text + ": the port number must be at most " +
                                              std::to_string(UINT16_MAX - kControlPortOffset) +
                                              ", because the server also uses this number plus " +
                                              std::to_string(kControlPortOffset));
    members.push_back(*address);
  }
  return members;
}

/// The texts of options that complete() parses.
struct ServeTexts {
  std::string listen = "127.0.0.1:6379", members, patience = "2s";
};

/// Checks the values that no option of the same command line changes.
Result<void> check_values(ServeOptions& options, const ServeTexts& texts) {
  const auto address = parse_address(texts.listen, kDefaultPort);
  if (!address) return fail(Errc::invalid_argument, "--listen: " + address.error().what);
  options.listen = *address;
  const auto duration = parse_duration(texts.patience);
  if (!duration) return fail(Errc::invalid_argument, "--unavailable-after: " + duration.error().what);
  options.unavailable_after = duration->ns / 1'000'000;
  if (options.unavailable_after <= 0)
    return fail(Errc::invalid_argument, "--unavailable-after: the shortest time is 1ms");
  if (!size_of(options.maxmemory))
    return fail(Errc::invalid_argument, "--maxmemory: '" + options.maxmemory +
                                            "' is not a size: write bytes, or a number with kb, mb or gb "
                                            "(powers of 1024), or with k, m or g (powers of 1000)");
  if (const auto metrics = MetricsServer::address_of(options.metrics); !options.metrics.empty() && !metrics)
    return fail(Errc::invalid_argument, "--metrics: " + metrics.error().what);
  return {};
}

Result<ServeOptions> complete(ServeOptions options, const ServeTexts& texts) {
  if (auto valid = check_values(options, texts); !valid) return std::unexpected(valid.error());
  const std::string& members = texts.members;
  const auto is_taken = [&](int port) { return port != 0 && options.tls_port == port; };
  if (is_taken(options.listen.port))
    return fail(Errc::invalid_argument, "--tls-port must be another port than that of --listen");
  if (members.empty()) return options;
  if (is_taken(options.listen.port + kControlPortOffset))
    return fail(Errc::invalid_argument, "--tls-port must be another port than that of --listen plus " +
                                            std::to_string(kControlPortOffset) +
                                            ", which the servers use among themselves");
  auto list = members_of(members);
  if (!list) return std::unexpected(list.error());
  options.members = std::move(*list);
  // The order of the list must not matter: servers that keep the view have their places by it.
  std::ranges::sort(options.members);
  const auto self = std::ranges::find(options.members, options.listen);
  if (self == options.members.end())
    return fail(Errc::invalid_argument, "--listen " + to_string(options.listen) +
                                            " is not one of --members, which are " +
                                            to_string(options.members));
  options.self = static_cast<std::size_t>(self - options.members.begin());
  const std::size_t majority = options.members.size() / 2 + 1;
  if (options.least_replicas == 0) options.least_replicas = majority;
  if (options.least_replicas > options.members.size())
    return fail(Errc::invalid_argument, "--min-replicas is " + std::to_string(options.least_replicas) +
                                            ", but --members has only " +
                                            std::to_string(options.members.size()));
  if (auto valid = check_identity(options.identity, false); !valid) return std::unexpected(valid.error());
  return options;
}

/// The texts of the options for TLS.
struct TlsTexts {
  std::string clients = "yes";
};

void declare_tls(CLI::App& app, ServeOptions& options, TlsTexts& texts) {
  CLI::Option* const port =
      app.add_option("--tls-port", options.tls_port,
                     "a further port, on the address of --listen, for clients with TLS (1.2 or 1.3)")
          ->check(number_from(0, UINT16_MAX));
  app.add_option("--tls-cert-file", options.tls.certificate,
                 "the certificate of the server for clients (PEM)")
      ->type_name("FILE")
      ->needs(port);
  app.add_option("--tls-key-file", options.tls.private_key,
                 "the private key of this certificate; its mode must be 0600")
      ->type_name("FILE")
      ->needs(port);
  app.add_option("--tls-ca-cert-file", options.tls.authority,
                 "the authorities of the certificates of clients (PEM); not with --tls-auth-clients no")
      ->type_name("FILE")
      ->needs(port);
  app.add_option("--tls-auth-clients", texts.clients, "whether a client with TLS needs a certificate")
      ->check(one_of({"yes", "no", "optional"}))
      ->capture_default_str()
      ->needs(port);
  app.add_flag("--tls-only", options.tls_only, "refuse clients without TLS")->needs(port);
}

Result<void> check_tls(ServeOptions& options, const TlsTexts& texts) {
  using Clients = TlsOptions::Clients;
  if (!options.tls_port) return {};
  TlsOptions& tls = options.tls;
  tls.clients = texts.clients == "yes"  ? Clients::need_certificate
                : texts.clients == "no" ? Clients::need_none
                                        : Clients::may_have_certificate;
  if (tls.certificate.empty() || tls.private_key.empty())
    return fail(Errc::invalid_argument, "--tls-port needs --tls-cert-file and --tls-key-file");
  if (tls.authority.empty() && tls.clients != Clients::need_none)
    return fail(Errc::invalid_argument, "--tls-port needs --tls-ca-cert-file, or --tls-auth-clients no");
  if (!tls.authority.empty() && tls.clients == Clients::need_none)
    return fail(Errc::invalid_argument,
                "--tls-ca-cert-file has no effect with --tls-auth-clients no: leave one of them out");
  return {};
}

std::vector<std::string> names_of_policies() {
  std::vector<std::string> names;
  for (const NamedPolicy& policy : kPolicies) names.emplace_back(policy.name);
  return names;
}

void declare_serve(CLI::App& serve, ServeOptions& options, ServeTexts& texts, TlsTexts& tls) {
  serve.add_option("--listen", texts.listen, "ADDR[:6379] for clients")->capture_default_str();
  CLI::Option* const members = serve.add_option(
      "--members", texts.members,
      "the client addresses of all servers of the service, as a hostlist; the same servers at each server. "
      "The default port is 6379. --listen must be one of them. Without this option, the server is alone");
  serve
      .add_option("--min-replicas", options.least_replicas,
                  "answer only while this number of servers has the state; the same at each server. Default: "
                  "a majority of --members")
      ->check(number_from(std::size_t{1}, kMostMembers))
      ->needs(members);
  serve
      .add_option(
          "--unavailable-after", texts.patience,
          "how long requests wait while the service cannot answer, before they get an error: seconds, "
          "or a number with ms or s")
      ->capture_default_str();
  CLI::Option* const directory =
      serve
          .add_option("--dir", options.directory,
                      "a directory of this server alone, where it keeps the data; default: only in memory")
          ->type_name("DIR");
  serve
      .add_option("--appendfsync", options.syncs,
                  "when writes are forced to the disk: always (before the reply), everysec (every second) or "
                  "no (when the kernel does it); the same at each server")
      ->transform(value_of<Syncs>(
          {{"always", Syncs::always}, {"everysec", Syncs::every_second}, {"no", Syncs::never}}))
      ->default_str("everysec")
      ->needs(directory);
  CLI::Option* const acl_file =
      serve
          .add_option("--acl-file", options.acl_file,
                      "the file with the users, in Redis' format; also for ACL LOAD and ACL SAVE")
          ->type_name("FILE");
  serve
      .add_option("--requirepass-file", options.requirepass_file,
                  "a file with the password of the default user; its mode must be 0600")
      ->type_name("FILE")
      ->excludes(acl_file);
  serve
      .add_option("--maxmemory", options.maxmemory,
                  "the limit for the memory of keys and values, for example 100mb; 0: no limit. It "
                  "counts only when the data has no limit yet; CONFIG SET changes it later")
      ->type_name("SIZE")
      ->capture_default_str();
  serve.add_option("--maxmemory-policy", options.maxmemory_policy, "which keys are evicted at the limit")
      ->check(one_of(names_of_policies()))
      ->capture_default_str();
  serve.add_option("--metrics", options.metrics,
                   "[ADDR:]PORT of the metrics for Prometheus; on loopback by default");
  serve
      .add_option("--fabric", options.fabric,
                  "the fabric between the servers; the same at each server. Default: auto")
      ->check(one_of(fabric::fabric_names()))
      ->needs(members);
  declare_tls(serve, options, tls);
  declare_identity(serve, options.identity, "run without a key: anyone who reaches a server can be one");
  for (const char* const name : {"--key-file", "--certificate", "--private-key", "--authority"})
    serve.get_option(name)->needs(members);
}

}  // namespace

std::variant<ServeOptions, StatusOptions, EndNow> parse_command_line(int argc, char** argv) {
  ServeOptions options;
  std::string server = "127.0.0.1:6379";
  CLI::App app{"A replicated key-value service that speaks the protocol of Redis.", "rdmc_kv"};
  app.set_version_flag("--version", "rdmc_kv " RDMC_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", options.json, "print one JSON object on each line of stdout");
  app.footer(
      "Exit codes:\n"
      "  0    ended by a signal; status: the service answers, and all its servers have all data\n"
      "  1    wrong usage\n"
      "  2    the server cannot listen, or cannot take part in the service; status: it cannot be reached, or "
      "refuses\n"
      "  3    status: a server is missing, or does not have all data, or the service does not answer at "
      "present");
  CLI::App* const serve = app.add_subcommand("serve", "runs a server until a signal");
  ServeTexts texts;
  TlsTexts tls;
  declare_serve(*serve, options, texts, tls);
  refuse_empty_values(*serve);
  StatusOptions asked;
  CLI::App* const status = app.add_subcommand("status", "shows the servers of a service");
  status->add_option("server", server, "ADDR[:6379] of one of them; with TLS, its port for TLS")
      ->capture_default_str();
  CLI::Option* const password_file =
      status
          ->add_option("--password-file", asked.password_file,
                       "a file with the password for the servers; its mode must be 0600")
          ->type_name("FILE");
  status->add_option("--user", asked.user, "the user with this password, who may give INFO and CONFIG GET")
      ->capture_default_str()
      ->needs(password_file);
  CLI::Option* const authority =
      status
          ->add_option("--tls-ca-cert-file", asked.tls.authority,
                       "ask the servers with TLS; the file has the authorities of their certificates (PEM)")
          ->type_name("FILE");
  CLI::Option* const certificate =
      status->add_option("--tls-cert-file", asked.tls.certificate, "a certificate for this program (PEM)")
          ->type_name("FILE")
          ->needs(authority);
  CLI::Option* const private_key =
      status
          ->add_option("--tls-key-file", asked.tls.private_key,
                       "the private key of this certificate; its mode must be 0600")
          ->type_name("FILE")
          ->needs(certificate);
  certificate->needs(private_key);
  refuse_empty_values(*status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndNow{app.exit(error) == 0 ? kDone : kUsage};
  }
  if (status->parsed()) {
    const auto address = parse_address(server, kDefaultPort);
    if (!address) return EndNow{complain(address.error(), kUsage)};
    asked.server = *address;
    asked.json = options.json;
    return asked;
  }
  if (serve->count("--unavailable-after") > 0 && texts.members.empty() && options.directory.empty())
    return EndNow{complain("--unavailable-after needs --members or --dir", kUsage)};
  options.names_memory_limit = serve->count("--maxmemory") + serve->count("--maxmemory-policy") > 0;
  if (auto valid = check_tls(options, tls); !valid) return EndNow{complain(valid.error(), kUsage)};
  auto wanted = complete(std::move(options), texts);
  if (!wanted) return EndNow{complain(wanted.error(), kUsage)};
  return std::move(*wanted);
}

}  // namespace rdmc::kv
