#include "target.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>

#include "mistake.h"
#include "xlashape/error.h"

namespace xlashape {
namespace {

struct Found {
  std::string host;
  std::string port;
  bool is_ipv6;
};

/// Adds the numeric addresses of HOST:PORT.
void Resolve(const std::string& address, std::vector<Found>* found) {
  const auto [host, port] = Split(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (const int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &first); failed != 0) {
    Error::Parts parts;
    parts.code = grpc::StatusCode::UNAVAILABLE;
    parts.field = "addresses";
    parts.message = address + ": " + gai_strerror(failed);
    throw Error(std::move(parts));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(first, freeaddrinfo);
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    std::array<char, 256> name{};
    std::array<char, 32> number{};
    if ((one->ai_family != AF_INET && one->ai_family != AF_INET6) ||
        getnameinfo(one->ai_addr, one->ai_addrlen, name.data(), name.size(), number.data(), number.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
      continue;
    }
    found->push_back({name.data(), number.data(), one->ai_family == AF_INET6});
  }
}

}  // namespace

std::pair<std::string, std::string> Split(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size() ||
      !std::all_of(address.begin() + static_cast<std::ptrdiff_t>(colon) + 1, address.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    Refuse("INVALID_ARGUMENT", "addresses", "each of several addresses is HOST:PORT, not '" + address + "'");
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {std::move(host), address.substr(colon + 1)};
}

std::string Target(const std::vector<std::string>& addresses) {
  if (addresses.size() == 1) return addresses.front();
  std::vector<Found> found;
  for (const std::string& address : addresses) Resolve(address, &found);
  // A list of gRPC holds addresses of one kind. Those of IPv4 have a form in IPv6.
  const bool is_ipv6 = std::any_of(found.begin(), found.end(), [](const Found& one) { return one.is_ipv6; });
  std::string target = is_ipv6 ? "ipv6:" : "ipv4:";
  for (const Found& one : found) {
    if (target.back() != ':') target += ",";
    const std::string host = !is_ipv6 ? one.host : "[" + (one.is_ipv6 ? one.host : "::ffff:" + one.host) + "]";
    target += host + ":" + one.port;
  }
  return target;
}

}  // namespace xlashape
