// What tests/benchmarks/bench_clients.py asks of each language: times in microseconds as JSON.
//
//   xlashape_bench HOST:PORT

#include <grpcpp/create_channel.h>
#include <xlashape/client.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "xlashape/v1/shape_service.grpc.pb.h"

namespace {

/// The seconds that `function` takes.
template <class Function>
double Seconds(Function function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: xlashape_bench HOST:PORT\n");
    return 2;
  }
  const std::string text = "bf16[20,300]{1,0:T(8,128)(2,1)}";
  const xlashape::Client client(argv[1]);
  const auto stub = xlashape::v1::ShapeService::NewStub(grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials()));
  const auto bare = [&] {
    grpc::ClientContext context;
    xlashape::v1::ByteSizeRequest request;
    request.add_shapes()->set_text(text);
    xlashape::v1::ByteSizeResponse answer;
    xlashape::Check(stub->ByteSize(&context, request, &answer));
  };
  std::vector<double> with_client;
  std::vector<double> without;
  for (int i = 0; i < 4000; ++i) {  // in turns, so that both meet the same load
    without.push_back(Seconds(bare));
    with_client.push_back(Seconds([&] { client.ByteSize(text); }));
  }
  constexpr std::size_t kCount = 1000000;
  std::vector<std::int64_t> points(2 * kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    points[2 * i] = static_cast<std::int64_t>(i / 128 % 8000);
    points[2 * i + 1] = static_cast<std::int64_t>(i % 128);
  }
  const std::string map_text = "(d0, d1) -> ((d0 * 128 + d1) floordiv 8, (d0 * 128 + d1) mod 8), domain: d0 in [0, 7999], d1 in [0, 127]";
  const xlashape::EvaluableMap map(client.ParseMap(map_text).map());
  const auto best = [](auto function) {
    double seconds = Seconds(function);
    for (int i = 0; i < 4; ++i) seconds = std::min(seconds, Seconds(function));
    return 1e6 * seconds;
  };
  std::printf("{\"small_call\": %.1f, \"bare_stub\": %.1f, ", 1e6 * Median(with_client), 1e6 * Median(without));
  std::printf("\"million_indices\": %.1f, ", best([&] { client.LinearIndices("f32[8000,128]{1,0:T(8,128)}", points); }));
  std::printf("\"evaluate_here\": %.1f, ", best([&] { map.EvaluateBatch(points, points.size() / 2); }));
  std::printf("\"evaluate_there\": %.1f}\n", best([&] { client.EvaluateMap(map, points); }));
} catch (const xlashape::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
