#include "trireme/comm/out_of_band.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <random>
#include <sstream>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr int k_milliseconds_to_connect = 3000;
constexpr std::uint32_t k_largest_text = 64U << 20;  // larger: not one of ours

double now() {
  return 1e-9 * static_cast<double>(monotonic_ns());
}

// IPv4 addresses of this host, loopback last: only ranks of the same host will get that far.
std::string addresses() {
  std::string others, loopback;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "127.0.0.1";
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    const bool local = std::strncmp(text.data(), "127.", 4) == 0;
    (local ? loopback : others) += std::string(text.data()) + " ";
  }
  freeifaddrs(list);
  return others + loopback;
}

bool write_all(int file, const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(file, at, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

void limit_waiting(int file) {
  const timeval patience{5, 0};
  setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

// A socket connected to the address, or -1.
int connected(const std::string& address, int port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return -1;
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return -1;
  const timeval patience{k_milliseconds_to_connect / 1000, 0};
  setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(file, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) return file;
  close(file);
  return -1;
}

}  // namespace

struct OutOfBand::State {
  struct Peer {
    int file = -1;
    bool greeted = false;
    std::string incoming;
    Message last;
    double received = 0;
  };
  int listener = -1, file = -1;
  std::uint64_t secret = 0;  // who does not know it is not of this job
  double answered = now();
  std::vector<Peer> peers;

  int listen_anywhere();
  void accept_new();
  bool read_from(Peer& peer);
};

int OutOfBand::State::listen_anywhere() {
  listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(any);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&any), size) != 0 || listen(listener, 1024) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&any), &size) != 0) {
    return 0;
  }
  return ntohs(any.sin_port);
}

OutOfBand::OutOfBand(const MpiSession& session, Part part) : state_(std::make_unique<State>()) {
  const bool sends = part == Part::sends && session.rank() != 0;
  if (!session.any(sends)) return;
  std::string where;
  if (session.rank() == 0) {
    std::random_device device;
    state_->secret = (static_cast<std::uint64_t>(device()) << 32) | device();
    where = std::to_string(state_->listen_anywhere()) + " " + std::to_string(state_->secret) + " " + addresses();
  }
  std::istringstream in(session.broadcast(where));
  int port = 0;
  in >> port >> state_->secret;
  for (std::string address; sends && port > 0 && state_->file < 0 && in >> address;) {
    state_->file = connected(address, port);
  }
  if (state_->file >= 0) limit_waiting(state_->file);
  if (state_->file >= 0) write_all(state_->file, &state_->secret, sizeof(state_->secret));
  const bool lost = session.any(sends && state_->file < 0);
  if (lost && session.rank() == 0) {
    log().warn("some nodes cannot reach rank 0 by TCP: reports of hangs will not name their ranks");
  }
}

OutOfBand::~OutOfBand() {
  for (const int file : {state_->listener, state_->file}) {
    if (file >= 0) close(file);
  }
  for (const State::Peer& peer : state_->peers) {
    if (peer.file >= 0) close(peer.file);
  }
}

bool OutOfBand::post(const std::string& text) {
  if (state_->file < 0) return false;
  const auto size = static_cast<std::uint32_t>(text.size());
  return write_all(state_->file, &size, sizeof(size)) && write_all(state_->file, text.data(), text.size());
}

double OutOfBand::silence() {
  if (state_->file < 0) return 0;
  std::array<char, 256> answers{};
  while (recv(state_->file, answers.data(), answers.size(), MSG_DONTWAIT) > 0) state_->answered = now();
  return now() - state_->answered;
}

void OutOfBand::State::accept_new() {
  if (listener < 0) return;
  for (int file = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); file >= 0;
       file = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) {
    Peer& peer = peers.emplace_back();
    peer.file = file;
    peer.received = now();
  }
}

// Takes what has come; false: not one of us, or gone.
bool OutOfBand::State::read_from(Peer& peer) {
  std::array<char, 65536> part{};
  for (ssize_t n = recv(peer.file, part.data(), part.size(), 0); n > 0;
       n = recv(peer.file, part.data(), part.size(), 0)) {
    peer.incoming.append(part.data(), static_cast<std::size_t>(n));
  }
  std::uint64_t greeting = 0;
  if (!peer.greeted && peer.incoming.size() >= sizeof(greeting)) {
    std::memcpy(&greeting, peer.incoming.data(), sizeof(greeting));
    if (greeting != secret) return false;
    peer.greeted = true;
    peer.incoming.erase(0, sizeof(greeting));
  }
  std::uint32_t size = 0;
  while (peer.greeted && peer.incoming.size() >= sizeof(size)) {
    std::memcpy(&size, peer.incoming.data(), sizeof(size));
    if (size > k_largest_text) return false;
    if (peer.incoming.size() < sizeof(size) + size) break;
    peer.last.text = peer.incoming.substr(sizeof(size), size);
    peer.received = now();
    peer.incoming.erase(0, sizeof(size) + size);
    const char taken = 1;
    send(peer.file, &taken, 1, MSG_NOSIGNAL);
  }
  return true;
}

std::vector<OutOfBand::Message> OutOfBand::latest() {
  state_->accept_new();
  std::vector<Message> messages;
  for (State::Peer& peer : state_->peers) {
    if (peer.file >= 0 && !state_->read_from(peer)) {
      close(peer.file);
      peer.file = -1;
    }
    peer.last.age = now() - peer.received;
    if (!peer.last.text.empty()) messages.push_back(peer.last);
  }
  return messages;
}

}  // namespace trireme
