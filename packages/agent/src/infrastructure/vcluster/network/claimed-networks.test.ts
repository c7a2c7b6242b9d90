import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ClaimedNetworks } from "./claimed-networks.ts";

describe("numbers of clusters' networks on one machine", () => {
  let folder: string;
  let ours: ClaimedNetworks;
  let theirs: ClaimedNetworks;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-claims-"));
    const claims = (owner: string): ClaimedNetworks => {
      mkdirSync(join(folder, owner));
      return new ClaimedNetworks(join(folder, owner), join(folder, "claims"));
    };
    [ours, theirs] = [claims("ours"), claims("theirs")];
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test("are whose gpve claimed them first, until it gives them back", () => {
    ours.claim(7);
    expect([ours.isOthers(7), theirs.isOthers(7)]).toEqual([false, true]);
    theirs.claim(7);
    theirs.release(7);
    expect(theirs.isOthers(7)).toBe(true);
    ours.release(7);
    expect(theirs.isOthers(7)).toBe(false);
  });

  test("are free when the folder of whoever claimed them is gone", () => {
    ours.claim(7);
    rmSync(join(folder, "ours"), { recursive: true });
    expect(theirs.isOthers(7)).toBe(false);
    theirs.claim(7);
    expect(ours.isOthers(7)).toBe(true);
  });
});
