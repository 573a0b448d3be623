/**
 * The layered layout of a graph: operands above, users below.
 *
 * 1. Edges that would close a cycle are turned (`acyclic`).
 * 2. A node's layer is the longest path to it; a node without operands moves down to its first user (`layersOf`).
 * 3. An edge over several layers goes through dummies. The edges of a node share them, so that a value that is used everywhere is one line with branches. The
 *    longest chains are cut if there would be too many dummies: such an edge has no route, and is drawn as a stub at either end.
 * 4. Each layer is ordered by the mean place of the neighbours above or below, in sweeps down and up; the order with the fewest crossings stays (`ordered`).
 * 5. Places along a layer come close to the neighbours' places, in sweeps (`placed`): the least squares for a fixed order, by pooling adjacent violators.
 */

export interface LayoutInput {
  widths: Float32Array;
  heights: Float32Array;
  /** The nodes that edges leave and enter. Edges of a node to itself have no route. */
  from: Int32Array;
  to: Int32Array;
  /** Between the layers. */
  gap?: number;
}

export interface Layout {
  /** The middle of each node. */
  x: Float32Array;
  y: Float32Array;
  layer: Int32Array;
  /** The route of edge e: the points `starts[e]` to `starts[e + 1]`, an x and a y each, from its source to its target; none if the edge is cut. */
  points: Float32Array;
  starts: Int32Array;
  width: number;
  height: number;
  layers: number;
  dummies: number;
}

const SIDE = 22; // between nodes of a layer
const LINE = 9; // between lines
const MOST_DUMMIES = 150_000;
const COUNTED = 60_000; // segments up to which crossings are counted

/** Neighbours of each node as one array: those of node n are `list[starts[n]]` to `list[starts[n + 1] - 1]`. */
interface Adjacency {
  starts: Int32Array;
  list: Int32Array;
}

function adjacency(count: number, keys: ArrayLike<number>, values: ArrayLike<number>, length = keys.length): Adjacency {
  const starts = new Int32Array(count + 1);
  for (let e = 0; e < length; e++) starts[keys[e]! + 1]!++;
  for (let n = 0; n < count; n++) starts[n + 1]! += starts[n]!;
  const next = starts.slice();
  const list = new Int32Array(length);
  for (let e = 0; e < length; e++) list[next[keys[e]!]!++] = values[e]!;
  return { starts, list };
}

/** The edges without those of a node to itself, the ones that close a cycle turned: whether each is turned, and the nodes in topological order. */
function acyclic(count: number, from: Int32Array, to: Int32Array): { isTurned: Uint8Array; order: Int32Array } {
  const ids = Int32Array.from(from, (_, e) => e);
  const { starts, list } = adjacency(count, from, ids);
  const isTurned = new Uint8Array(from.length);
  const state = new Uint8Array(count); // 1: on the path, 2: done
  const next = starts.slice(0, count);
  const order = new Int32Array(count);
  let at = count;
  const path: number[] = [];
  const hasOperand = new Uint8Array(count);
  for (let e = 0; e < to.length; e++) if (from[e] !== to[e]) hasOperand[to[e]!] = 1;
  // Roots first, the last one first, so that the order of the nodes stays where edges leave it open.
  for (const isRoot of [true, false]) {
    for (let root = count - 1; root >= 0; root--) {
      if (state[root] || (isRoot && hasOperand[root])) continue;
      path.push(root);
      state[root] = 1;
      while (path.length > 0) {
        const node = path[path.length - 1]!;
        if (next[node]! === starts[node + 1]!) {
          state[node] = 2;
          order[--at] = node;
          path.pop();
          continue;
        }
        const edge = list[next[node]!++]!;
        const user = to[edge]!;
        if (state[user] === 1) isTurned[edge] = 1; // a node's edge to itself too, which has no route
        else if (!state[user]) {
          state[user] = 1;
          path.push(user);
        }
      }
    }
  }
  return { isTurned, order };
}

function layersOf(count: number, order: Int32Array, up: Int32Array, down: Int32Array): Int32Array {
  const users = adjacency(count, up, down);
  const layer = new Int32Array(count);
  for (const node of order) {
    for (let i = users.starts[node]!; i < users.starts[node + 1]!; i++) {
      const user = users.list[i]!;
      layer[user] = Math.max(layer[user]!, layer[node]! + 1);
    }
  }
  const operands = new Int32Array(count);
  for (const node of down) operands[node]!++;
  for (let k = count - 1; k >= 0; k--) {
    const node = order[k]!;
    const uses = users.starts[node + 1]! - users.starts[node]!;
    if (uses === 0 || (operands[node]! > 0 && operands[node]! >= uses)) continue;
    let least = Infinity;
    for (let i = users.starts[node]!; i < users.starts[node + 1]!; i++) least = Math.min(least, layer[users.list[i]!]!);
    layer[node] = Math.max(layer[node]!, least - 1);
  }
  return layer;
}

/** Nodes and dummies: numbers from `count` on are dummies. */
interface Graph {
  size: number;
  layer: Int32Array;
  layers: number[][];
  above: Adjacency;
  below: Adjacency;
}

/** Crossings between a layer and the next one, by an accumulator tree. */
function crossings(order: readonly number[], below: Adjacency, place: Int32Array, width: number): number {
  let first = 1;
  while (first < width) first *= 2;
  const tree = new Int32Array(2 * first);
  let found = 0;
  for (const node of order) {
    const ends = below.list.subarray(below.starts[node]!, below.starts[node + 1]!);
    for (const end of ends) for (let i = place[end]! + first; i > 1; i >>= 1) if (!(i & 1)) found += tree[i + 1]!;
    for (const end of ends) for (let i = place[end]! + first; i >= 1; i >>= 1) tree[i]!++;
  }
  return found;
}

function ordered({ size, layers, above, below }: Graph): number[][] {
  const place = new Int32Array(size);
  const mean = new Float64Array(size);
  const settle = (row: number[]) => row.forEach((node, i) => (place[node] = i));
  layers.forEach(settle);
  const isCounted = below.list.length <= COUNTED;
  const count = () => layers.reduce((sum, row, i) => sum + (i + 1 < layers.length ? crossings(row, below, place, layers[i + 1]!.length) : 0), 0);
  let best = layers.map((row) => row.slice());
  let fewest = isCounted ? count() : Infinity;
  const sweeps = isCounted ? 16 : 6;
  let stale = 0;
  for (let sweep = 0; sweep < sweeps && fewest > 0 && stale < 5; sweep++) {
    const isDown = sweep % 2 === 0;
    const { starts, list } = isDown ? above : below;
    for (let step = 1; step < layers.length; step++) {
      const row = layers[isDown ? step : layers.length - 1 - step]!;
      if (row.length < 2) continue;
      let last = -1; // a node without neighbours stays behind the one before it
      for (const node of row) {
        const first = starts[node]!;
        const end = starts[node + 1]!;
        let sum = 0;
        for (let i = first; i < end; i++) sum += place[list[i]!]!;
        last = mean[node] = end > first ? sum / (end - first) : last;
      }
      row.sort((a, b) => mean[a]! - mean[b]! || place[a]! - place[b]!);
      settle(row);
    }
    const found = isCounted ? count() : 0;
    if (found < fewest || !isCounted) {
      fewest = isCounted ? found : Infinity;
      best = isCounted ? layers.map((row) => row.slice()) : layers;
      stale = 0;
    } else stale++;
  }
  return best;
}

/** The places that come closest to `wanted`, by weighted squares, with at least `apart[i]` from the one before. */
function spread(wanted: Float64Array, weights: Float64Array, apart: Float64Array, count: number, places: Float64Array): void {
  const mean = new Float64Array(count);
  const weight = new Float64Array(count);
  const length = new Int32Array(count);
  let blocks = 0;
  let offset = 0;
  for (let i = 0; i < count; i++) {
    offset += apart[i]!;
    mean[blocks] = wanted[i]! - offset;
    weight[blocks] = weights[i]!;
    length[blocks++] = 1;
    while (blocks > 1 && mean[blocks - 2]! > mean[blocks - 1]!) {
      const both = weight[blocks - 2]! + weight[blocks - 1]!;
      mean[blocks - 2] = (mean[blocks - 2]! * weight[blocks - 2]! + mean[blocks - 1]! * weight[blocks - 1]!) / both;
      weight[blocks - 2] = both;
      length[blocks - 2]! += length[--blocks]!;
    }
  }
  offset = 0;
  for (let block = 0, i = 0; block < blocks; block++) {
    for (let k = 0; k < length[block]!; k++, i++) {
      offset += apart[i]!;
      places[i] = mean[block]! + offset;
    }
  }
}

function placed(graph: Graph, rows: number[][], widths: Float32Array, count: number): Float64Array {
  const { size, above, below } = graph;
  const x = new Float64Array(size);
  const apart = rows.map((row) =>
    Float64Array.from(row, (node, i) => {
      if (i === 0) return 0;
      const before = row[i - 1]!;
      const isLines = node >= count && before >= count;
      return (widthOf(node) + widthOf(before)) / 2 + (isLines ? LINE : SIDE);
    }),
  );
  function widthOf(node: number): number {
    return node < count ? widths[node]! : 2;
  }
  rows.forEach((row, i) => {
    let at = 0;
    row.forEach((node, k) => (x[node] = at += apart[i]![k]!));
    for (const node of row) x[node]! -= at / 2;
  });
  const most = rows.reduce((found, row) => Math.max(found, row.length), 0);
  const wanted = new Float64Array(most);
  const weights = new Float64Array(most);
  const places = new Float64Array(most);
  const sweeps = below.list.length <= COUNTED ? 14 : 6;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const isDown = sweep % 2 === 0;
    const { starts, list } = isDown ? above : below;
    const other = isDown ? below : above;
    const isBoth = sweep >= sweeps - 2; // at the end, nodes lie between those on both sides; lines stay straight
    for (let step = 0; step < rows.length; step++) {
      const number = isDown ? step : rows.length - 1 - step;
      const row = rows[number]!;
      row.forEach((node, i) => {
        let sum = 0;
        let weight = 0;
        const add = (neighbour: number) => {
          const w = node >= count && neighbour >= count ? 8 : node >= count || neighbour >= count ? 2 : 1; // lines are straight first
          sum += w * x[neighbour]!;
          weight += w;
        };
        for (let k = starts[node]!; k < starts[node + 1]!; k++) add(list[k]!);
        if (isBoth && node < count) for (let k = other.starts[node]!; k < other.starts[node + 1]!; k++) add(other.list[k]!);
        wanted[i] = weight > 0 ? sum / weight : x[node]!;
        weights[i] = weight > 0 ? weight : 0.05;
      });
      spread(wanted, weights, apart[number]!, row.length, places);
      row.forEach((node, i) => (x[node] = places[i]!));
    }
  }
  return x;
}

/** The layout of a graph; it may have cycles. */
export function layout({ widths, heights, from, to, gap = 40 }: LayoutInput): Layout {
  const count = widths.length;
  const edges = from.length;
  const { isTurned, order } = acyclic(count, from, to);
  const up = Int32Array.from(from, (node, e) => (isTurned[e] ? to[e]! : node));
  const down = Int32Array.from(to, (node, e) => (isTurned[e] ? from[e]! : node));
  const isLoop = Uint8Array.from(from, (node, e) => (node === to[e] ? 1 : 0));
  const isReal = (_: number, e: number) => !isLoop[e];
  const nodeLayer = layersOf(count, order, up.filter(isReal), down.filter(isReal));

  // The chain of dummies below each node, as far as its farthest user.
  const reach = new Int32Array(count);
  for (let e = 0; e < edges; e++) {
    if (!isLoop[e]) reach[up[e]!] = Math.max(reach[up[e]!]!, nodeLayer[down[e]!]! - nodeLayer[up[e]!]! - 1);
  }
  let limit = Infinity;
  let sum = 0;
  for (const length of reach.slice().sort()) {
    sum += length;
    if (sum > MOST_DUMMIES) {
      limit = length - 1;
      break;
    }
  }
  for (let e = 0, seen = reach.slice().fill(0); e <= edges; e++) {
    // A cut edge needs no dummies.
    if (e === edges) reach.set(seen);
    else if (!isLoop[e]) {
      const length = nodeLayer[down[e]!]! - nodeLayer[up[e]!]! - 1;
      if (length <= limit) seen[up[e]!] = Math.max(seen[up[e]!]!, length);
    }
  }
  const firstDummy = new Int32Array(count);
  let size = count;
  for (let node = 0; node < count; node++) {
    firstDummy[node] = size;
    size += reach[node]!;
  }
  const layer = new Int32Array(size);
  layer.set(nodeLayer);
  const deepest = nodeLayer.reduce((found, value) => Math.max(found, value), -1);
  const layers: number[][] = Array.from({ length: deepest + 1 }, () => []);
  const parents: number[] = [];
  const children: number[] = [];
  for (const node of order) {
    layers[layer[node]!]!.push(node);
    for (let k = 0; k < reach[node]!; k++) {
      const dummy = firstDummy[node]! + k;
      layer[dummy] = layer[node]! + 1 + k;
      layers[layer[dummy]!]!.push(dummy);
      parents.push(k === 0 ? node : dummy - 1);
      children.push(dummy);
    }
  }
  const isCut = new Uint8Array(edges);
  for (let e = 0; e < edges; e++) {
    if (isLoop[e]) continue;
    const length = layer[down[e]!]! - layer[up[e]!]! - 1;
    if (length > limit) isCut[e] = 1;
    else {
      parents.push(length === 0 ? up[e]! : firstDummy[up[e]!]! + length - 1);
      children.push(down[e]!);
    }
  }
  const graph: Graph = { size, layer, layers, above: adjacency(size, children, parents), below: adjacency(size, parents, children) };
  const rows = ordered(graph);
  const places = placed(graph, rows, widths, count);

  // Layers below each other; the routes.
  const y = new Float32Array(size);
  let top = 0;
  const tall = new Float32Array(rows.length);
  rows.forEach((row, i) => {
    for (const node of row) if (node < count) tall[i] = Math.max(tall[i]!, heights[node]!);
    for (const node of row) y[node] = top + tall[i]! / 2;
    top += tall[i]! + gap;
  });
  let least = Infinity;
  let most = -Infinity;
  for (let node = 0; node < size; node++) {
    const half = node < count ? widths[node]! / 2 : 1;
    least = Math.min(least, places[node]! - half);
    most = Math.max(most, places[node]! + half);
  }
  const x = Float32Array.from(places, (place) => place - least);
  const via = (e: number) => {
    const length = layer[down[e]!]! - layer[up[e]!]! - 1;
    return x[length > 0 ? firstDummy[up[e]!]! + length - 1 : up[e]!]!;
  };
  const entries = entriesOf(
    Int32Array.from(from, (_, e) => e).filter((e) => !isLoop[e] && !isCut[e]),
    down,
    x,
    widths,
    via,
  );
  const starts = new Int32Array(edges + 1);
  const points: number[] = [];
  for (let e = 0; e < edges; e++) {
    starts[e] = points.length / 2;
    if (isLoop[e] || isCut[e]) continue;
    const a = up[e]!;
    const b = down[e]!;
    const route = [x[a]!, y[a]! + heights[a]! / 2];
    const length = layer[b]! - layer[a]! - 1;
    for (let k = 0; k < length; k++) {
      const dummy = firstDummy[a]! + k;
      const half = tall[layer[dummy]!]! / 2;
      // Straight beside the nodes of the layer, and on where the next dummy lies below.
      if (k > 0 && Math.abs(route[route.length - 2]! - x[dummy]!) < 0.5) route[route.length - 1] = y[dummy]! + half;
      else route.push(x[dummy]!, y[dummy]! - half, x[dummy]!, y[dummy]! + half);
    }
    route.push(entries[e]!, y[b]! - heights[b]! / 2);
    if (isTurned[e]) for (let i = route.length - 2; i >= 0; i -= 2) points.push(route[i]!, route[i + 1]!);
    else for (const value of route) points.push(value);
  }
  starts[edges] = points.length / 2;
  return {
    x: x.slice(0, count),
    y: y.slice(0, count),
    layer: nodeLayer,
    points: Float32Array.from(points),
    starts,
    width: count > 0 ? most - least : 0,
    height: count > 0 ? top - gap : 0,
    layers: rows.length,
    dummies: size - count,
  };
}

/** Where edges enter their lower node: side by side along its upper side, in the order of the places they come from. */
function entriesOf(edges: Int32Array, down: Int32Array, x: Float32Array, widths: Float32Array, via: (e: number) => number): Float32Array {
  const { starts, list } = adjacency(
    widths.length,
    edges.map((e) => down[e]!),
    edges,
  );
  const entries = new Float32Array(down.length);
  for (let node = 0; node < widths.length; node++) {
    const entering = Array.from(list.subarray(starts[node]!, starts[node + 1]!)).sort((a, b) => via(a) - via(b) || a - b);
    const step = Math.min(14, (widths[node]! * 0.7) / Math.max(1, entering.length));
    entering.forEach((e, i) => (entries[e] = x[node]! + (i - (entering.length - 1) / 2) * step));
  }
  return entries;
}
