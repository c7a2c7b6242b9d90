import { describe, expect, it } from "vitest";
import { SeenClusters } from "./seen-clusters.ts";

describe("clusters that an archive has brought", () => {
  it("are each there once, and all of them in the end", () => {
    const seen = new SeenClusters(1_030);
    for (let cluster = 0; cluster < 1_030; cluster++) {
      expect(seen.firstMissing()).toBe(cluster);
      expect(seen.note(cluster)).toBe("new");
    }
    expect(seen.firstMissing()).toBeUndefined();
    expect(seen.note(700)).toBe("again");
    expect(seen.note(1_030)).toBe("beyond");
  });

  it("need no room for what a header only promises", () => {
    const seen = new SeenClusters(2 ** 48);
    expect(seen.note(2 ** 32 - 1)).toBe("new");
    expect(seen.note(0)).toBe("new");
    expect(seen.firstMissing()).toBe(1);
    expect(new SeenClusters(0).firstMissing()).toBeUndefined();
  });
});
