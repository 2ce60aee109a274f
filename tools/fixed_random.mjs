// Random numbers that are the same on every run, for the generators of test vectors: xorshift32.
let state = 20240607;
export function random(limit) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % limit;
}
export const pick = (list) => list[random(list.length)];
