// Prints the peak of a program's memory, the largest buffers at the peak, and what a fusion reads.
//
//   xlashape_peak localhost:50051 attention.hlo.pb ynn_fusion.4

#include <xlashape/client.h>

#include <fstream>
#include <iostream>
#include <iterator>

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: xlashape_peak HOST:PORT FILE FUSION\n";
    return 2;
  }
  const xlashape::Client client(argv[1]);
  std::ifstream file(argv[2], std::ios::binary);
  const auto module = xlashape::SerializedModule(std::string(std::istreambuf_iterator<char>(file), {}));
  xlashape::v1::MemoryRequest request;
  *request.mutable_module() = module;
  request.set_page_size(3);
  const auto memory = client.Memory(request);
  std::cout << "peak " << memory.totals().peak_bytes() << "\n";
  for (const auto& buffer : memory.peak_buffers()) {
    std::cout << buffer.name() << " " << buffer.bytes() << " " << buffer.shape() << "\n";
  }
  xlashape::v1::IndexingMapsRequest maps;
  *maps.mutable_module() = module;
  maps.set_instruction(argv[3]);
  for (const auto& read : client.IndexingMapsRows(maps)) {
    std::cout << read.operand_name() << " " << read.map() << "\n";
  }
} catch (const xlashape::Error& error) {
  if (error.reason() != xlashape::reason::kNotFound) throw;
  std::cout << error.reason() << " " << error.field() << " " << error.details().at("name") << "\n";
}
