import { describe } from "vitest";
import { FakeHostMemory } from "./fake-host-memory.ts";
import { hostMemoryConformance } from "./host-memory-conformance.ts";

describe("made-up memory of a host", () => {
  hostMemoryConformance(() => {
    const memory = new FakeHostMemory(4);
    const has = (path: string) =>
      memory.folders.has(path) || [...memory.shared].some((name) => path.endsWith(`-${name}`));
    return { memory, pages: memory.pages, has };
  });
});
