"""protos/client_methods: the methods of the clients are those of the schema, and an RPC that is added needs nothing
else.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest

import schema_compiler
from client_methods.__main__ import answer
from client_methods.languages import LANGUAGES, texts
from client_methods.model import SchemaError
from client_methods.reasons import REASONS
from xlashape import errors
from xlashape.errors import XlashapeError

CHECKOUT = Path(__file__).resolve().parents[3]
REAL = CHECKOUT / "protos"

MADE_UP = """
// Weighs.
service ScaleService {
  // Weighs each shape, in grams.
  rpc WeighShape(WeighShapeRequest) returns (WeighShapeResponse);
  // Describes the scale.
  rpc DescribeScale(DescribeScaleRequest) returns (DescribeScaleResponse);
  // Lists what was weighed, as DescribeScale describes it.
  rpc ListWeights(ListWeightsRequest) returns (ListWeightsResponse);
  // Finds what weighs as much.
  rpc EqualIndex(EqualIndexRequest) returns (EqualIndexResponse);
  // EqualIndex in bulk.
  rpc EqualIndices(stream EqualIndicesRequest) returns (stream EqualIndicesResponse);
  // Piles each chain of shapes up.
  rpc PileShapes(PileShapesRequest) returns (PileShapesResponse);
}
message WeighShapeRequest { repeated ShapeInput shapes = 1; int64 gravity = 2; }
message Weight { double grams = 1; }
message WeighShapeResponse {
  // One for each shape of the request.
  repeated Weight weights = 1;
}
message DescribeScaleRequest { ModuleInput module = 1; }
message DescribeScaleResponse { string text = 1; }
message ListWeightsRequest { ModuleInput module = 1; int32 page_size = 2; string page_token = 3; }
message ListWeightsResponse { repeated Weight weights = 1; string next_page_token = 2; }
message EqualIndexRequest { ShapeInput shape = 1; repeated sfixed64 indices = 2; }
message EqualIndexResponse { repeated sfixed64 positions = 1; }
message EqualIndicesRequest { ShapeInput shape = 1; repeated sfixed64 indices = 2; }
message EqualIndicesResponse { repeated sfixed64 positions = 1; }
message ShapeChain { repeated ShapeInput shapes = 1; }
message PileShapesRequest { repeated ShapeChain chains = 1; }
message PileShapesResponse { repeated Weight weights = 1; }
"""

EXPECTED = {
    "go": [
        "// WeighShape weighs a shape, in grams.",
        "func (c *Client) WeighShape(ctx context.Context, shape *xlashapev1.ShapeInput) (*xlashapev1.Weight, error) {",
        "// WeighShapes weighs each shape, in grams. All shapes are sent in one call.",
        "func (c *Client) WeighShapes(ctx context.Context, shapes ...*xlashapev1.ShapeInput) ([]*xlashapev1.Weight, "
        "error) {",
        "func (c *Client) DescribeScale(ctx context.Context, request *xlashapev1.DescribeScaleRequest) "
        "(*xlashapev1.DescribeScaleResponse, error) {",
        "\treturn c.Scale.DescribeScale(ctx, request)",
        "func (c *Client) ListWeights(ctx context.Context, request *xlashapev1.ListWeightsRequest) "
        "iter.Seq2[*xlashapev1.Weight, error] {",
        "// ListWeights lists what was weighed, as [Client.DescribeScale] describes it. The iterator fetches pages as they "
        "are needed, and ends after the first",
        "func (c *Client) EqualIndex(ctx context.Context, shape *xlashapev1.ShapeInput, index ...int64) (int64, error) "
        "{",
        "func (c *Client) EqualIndices(ctx context.Context, shape *xlashapev1.ShapeInput, indices []int64) ([]int64, "
        "error) {",
        "// PileShapes piles a chain of shapes up.",
        "func (c *Client) PileShapes(ctx context.Context, chain ...*xlashapev1.ShapeInput) (*xlashapev1.Weight, error) "
        "{",
    ],
    "cpp": [
        "  /// Weighs a shape, in grams.",
        "  v1::Weight WeighShape(const AnyShape& shape) const;",
        "  std::vector<v1::Weight> WeighShapes(const std::vector<AnyShape>& shapes) const;",
        "  return calls_->Ask(&v1::ScaleService::Stub::DescribeScale, request, true);",
        "  Sequence<v1::Weight> ListWeights(v1::ListWeightsRequest request) const;",
        "  /// Lists what was weighed, as DescribeScale() describes it. Pages are fetched as they are needed.",
        "  std::int64_t EqualIndex(const AnyShape& shape, const std::vector<std::int64_t>& index) const;",
        "  std::vector<std::int64_t> EqualIndices(const AnyShape& shape, const std::vector<std::int64_t>& indices) "
        "const;",
    ],
    "java": [
        "   * Weighs a shape, in grams.",
        "  public Weight weighShape(ShapeInput shape) {",
        "  public CompletableFuture<Weight> weighShape(ShapeInput shape) {",
        "   * @return one for each shape of the request",
        "  public List<Weight> weighShapes(List<ShapeInput> shapes) {",
        "    return calls.ask(ScaleServiceGrpc.getDescribeScaleMethod(), request, answer -> answer);",
        "  public Stream<Weight> listWeights(ListWeightsRequest request) {",
        "   * Lists what was weighed, as {@link #describeScale} describes it. Pages are fetched as they are needed.",
        "  public CompletableFuture<Long> equalIndex(ShapeInput shape, long... index) {",
        "  public long[] equalIndices(ShapeInput shape, long[] indices) {",
        "  public CompletableFuture<long[]> equalIndices(ShapeInput shape, long[] indices) {",
    ],
    "kotlin": [
        "    public suspend fun weighShape(shape: ShapeInput): Weight = async.weighShape(shape).await()",
        "    public suspend fun weighShapes(shapes: List<ShapeInput>): List<Weight> = async.weighShapes(shapes).await()",
        "    public fun listWeights(request: ListWeightsRequest): Flow<Weight> = flowOf { client.listWeights(request) }",
        "     * Lists what was weighed, as [describeScale] describes it. Pages are fetched as they are needed. The call begins",
        "    public suspend fun equalIndex(shape: ShapeInput, vararg index: Long): Long = "
        "async.equalIndex(shape, *index).await()",
        "    public suspend fun equalIndices(shape: ShapeInput, indices: LongArray): LongArray =",
    ],
    "rust": [
        "    /// Weighs a shape, in grams.",
        "    pub async fn weigh_shape(&self, shape: impl Into<ShapeInput>) -> Result<Weight> {",
        "    /// Weighs each shape, in grams. All shapes are sent in one call.",
        "    pub async fn weigh_shapes<S: Into<ShapeInput>>(&self, shapes: impl IntoIterator<Item = S>) -> "
        "Result<Vec<Weight>> {",
        "        same_number(ask!(self, scale.weigh_shape, request, 1)?.weights, count)",
        "    pub async fn describe_scale(&self, request: DescribeScaleRequest) -> Result<DescribeScaleResponse> {",
        "    ) -> impl Stream<Item = Result<Weight>> + Send + Unpin + use<> {",
        "    /// Lists what was weighed, as [`Client::describe_scale`] describes it. Pages are fetched as they are needed; the "
        "stream ends after the first",
        "    pub async fn equal_index(&self, shape: impl Into<ShapeInput>, index: &[i64]) -> Result<i64> {",
        "    pub async fn equal_indices(&self, shape: impl Into<ShapeInput>, indices: Vec<i64>) -> Result<Vec<i64>> {",
        "    pub async fn pile_shapes<S: Into<ShapeInput>>(&self, chain: impl IntoIterator<Item = S>) -> "
        "Result<Weight> {",
    ],
    "typescript": [
        "  /** Weighs a shape, in grams. */",
        "  async weighShape(shape: ShapeLike, options?: CallOptions): Promise<Weight> {",
        "  /** Weighs each shape, in grams. All shapes are sent in one call. */",
        "  async weighShapes(shapes: readonly ShapeLike[], options?: CallOptions): Promise<Weight[]> {",
        "    return sameNumber(answer.weights, shapes.length);",
        "  async describeScale(request: About<DescribeScaleRequest>, options?: CallOptions): "
        "Promise<DescribeScaleResponse> {",
        "  async *listWeights(request: About<ListWeightsRequest>, options?: CallOptions): AsyncGenerator<Weight> {",
        "  /** Lists what was weighed, as `describeScale` describes it. Pages are fetched as they are needed. */",
        "  async equalIndex(shape: ShapeLike, index: Integers, options?: CallOptions): Promise<bigint> {",
        "  async equalIndices(shape: ShapeLike, indices: Integers, options?: CallOptions): Promise<BigInt64Array> {",
        "  async pileShapes(chain: readonly ShapeLike[], options?: CallOptions): Promise<Weight> {",
    ],
}
"""Language → lines of its file for the made-up service."""


def with_more(folder: Path, text: str) -> Path:
    """A copy of the schema, with `text` at the end of shape_service.proto."""
    shutil.copytree(REAL / "xlashape", folder / "xlashape")
    path = folder / "xlashape" / "v1" / "shape_service.proto"
    path.write_text(path.read_text() + text)
    return folder


@pytest.mark.parametrize("language", LANGUAGES)
def test_committed_methods_are_those_of_the_schema(language: str) -> None:
    for path, text in texts(schema_compiler.compile_files(REAL).file, [language]).items():
        assert "generated" in text.partition("\n")[0]
        assert (CHECKOUT / path).read_text() == text, "run `python protos/client_methods`"


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_made_up_service_needs_nothing_else(language: str, tmp_path: Path) -> None:
    files = schema_compiler.compile_files(with_more(tmp_path, MADE_UP)).file
    lines = [line for text in texts(files, [language]).values() for line in text.splitlines()]
    assert [line for line in EXPECTED[language] if line not in lines] == []


@pytest.mark.parametrize(
    ("language", "formatter"),
    [("go", ["gofmt"]), ("rust", ["rustfmt", "--edition=2021", f"--config-path={CHECKOUT / 'clients' / 'rust'}"])],
)
def test_it_is_formatted(language: str, formatter: list[str], tmp_path: Path) -> None:
    if shutil.which(formatter[0]) is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{formatter[0]} is not here")
        pytest.skip(f"{formatter[0]} is not installed")
    for protos in (REAL, with_more(tmp_path, MADE_UP)):
        for text in texts(schema_compiler.compile_files(protos).file, [language]).values():
            done = subprocess.run(formatter, input=text, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout) == (0, text), done.stderr


def test_the_plugin_answers_protoc() -> None:
    files = schema_compiler.compile_files(REAL).file
    response = answer(CodeGeneratorRequest(proto_file=files))
    assert {file.name: file.content for file in response.file} == texts(files)


@pytest.mark.parametrize(
    ("made_up", "told"),
    [
        (
            "service S { rpc Fill(stream Filling) returns (Filling); } message Filling { bytes data = 1; }",
            "Fill takes a stream, and no RPC without streams has the same fields",
        ),
        (
            MADE_UP.replace("repeated ShapeChain chains", "repeated ShapeInput shapes"),
            "PileShapes is a plural already: say the names of its methods in RPCS of overrides.py",
        ),
        (
            MADE_UP.replace("repeated sfixed64 indices", "repeated int32 indices"),
            "EqualIndex and EqualIndices have the same fields, and do not ask about many sfixed64 of one shape or map",
        ),
        (
            MADE_UP.replace(
                "ShapeInput shape = 1; repeated sfixed64 indices", "MapInput map = 1; repeated sfixed64 positions"
            ),
            "EqualIndex makes positions of positions, which no client can ask in parts",
        ),
        (
            MADE_UP.replace("sfixed64 positions", "sfixed64 weights"),
            "EqualIndex has many weights: say in NUMBERS_A_ROW of overrides.py how many belong together",
        ),
    ],
    ids=["stream", "plural", "small_numbers", "pairs", "numbers"],
)
def test_what_no_kind_fits_is_an_error(made_up: str, told: str, tmp_path: Path) -> None:
    files = schema_compiler.compile_files(with_more(tmp_path, made_up)).file
    with pytest.raises(SchemaError, match=told):
        texts(files)
    response = answer(CodeGeneratorRequest(proto_file=files))
    assert told in response.error
    assert not response.file


def test_the_reasons_are_the_codes_of_the_librarys_errors() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, XlashapeError)]
    codes = {kind.code.upper() for kind in classes if kind is not XlashapeError}
    assert set(REASONS) == codes | {"INVALID_ANSWER"}
