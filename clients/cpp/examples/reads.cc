// Uploads an HLO module and prints what its fusions read.
//
//   xlashape_reads localhost:50051 attention.hlo.pb

#include <xlashape/client.h>

#include <cmath>
#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: xlashape_reads HOST:PORT FILE\n";
    return 2;
  }
  const xlashape::Client client(argv[1]);
  xlashape::v1::ReadsRequest request;
  request.mutable_module()->set_name(client.UploadModuleFile(argv[2]).module.name());
  for (const auto& read : client.ReadsRows(request)) {
    if (read.opcode() != "fusion" || !read.has_part_read()) continue;
    std::cout << read.instruction() << " reads " << std::lround(100 * read.part_read()) << " % of " << read.operand_name() << "\n";
    std::cout << "  " << read.map() << "\n";
  }
} catch (const xlashape::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
