import { describe, expect, it } from "vitest";
import { balloonTargets, type BalloonedGuest } from "./auto-balloon.ts";

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;
const STEP = 100 * MIB;

const guest = (vmid: number, more: Partial<BalloonedGuest> = {}): BalloonedGuest => ({
  vmid,
  balloon: 4 * GIB,
  min: GIB,
  max: 4 * GIB,
  shares: 1000,
  ...more,
});
const targets = (guests: readonly BalloonedGuest[], used: number, total = 10 * GIB): Record<string, number> =>
  Object.fromEntries(balloonTargets(guests, { total, used }));

describe("memory of guests with balloons", () => {
  it("stays where the host uses about what it may", () => {
    expect(targets([guest(100)], 8 * GIB)).toEqual({});
    expect(targets([guest(100)], 8 * GIB + 9 * MIB)).toEqual({});
    expect(targets([], 10 * GIB)).toEqual({});
  });

  it("is taken by steps where the host runs short, and never below the minimum", () => {
    expect(targets([guest(100)], 10 * GIB)).toEqual({ 100: 4 * GIB - STEP });
    expect(targets([guest(100, { balloon: GIB + MIB })], 10 * GIB)).toEqual({ 100: GIB });
    expect(targets([guest(100, { balloon: GIB })], 10 * GIB)).toEqual({});
    // Not more than is needed.
    const [only] = Object.values(targets([guest(100)], 8 * GIB + 20 * MIB));
    expect(only).toBe(4 * GIB - 20 * MIB);
  });

  it("is taken first from guests that say they do not use it", () => {
    const idle = guest(101, { free: GIB });
    expect(targets([guest(100), idle], 10 * GIB)).toEqual({ 101: 4 * GIB - STEP });
    // Nothing left to take there: everybody gives.
    expect(targets([guest(100), { ...idle, balloon: GIB }], 10 * GIB)).toEqual({ 100: 4 * GIB - STEP });
  });

  it("is given back where there is plenty, first to those who need it", () => {
    const short = guest(100, { balloon: 2 * GIB });
    const idle = guest(101, { balloon: 2 * GIB, free: GIB });
    expect(targets([short, idle], GIB)).toEqual({ 100: 2 * GIB + STEP });
    expect(targets([{ ...short, balloon: 4 * GIB }, idle], GIB)).toEqual({ 101: 2 * GIB + STEP });
    expect(targets([guest(100, { balloon: 4 * GIB - MIB })], GIB)).toEqual({ 100: 4 * GIB });
  });

  it("is shared by weight", () => {
    const heavy = guest(100, { balloon: GIB + 30 * MIB, shares: 3000 });
    const light = guest(101, { balloon: GIB + 10 * MIB });
    const given = targets([heavy, light], 8 * GIB - 20 * MIB);
    expect(given).toEqual({ 100: GIB + 45 * MIB, 101: GIB + 15 * MIB });
    const taken = targets([heavy, light], 8 * GIB + 20 * MIB);
    expect(taken).toEqual({ 100: GIB + 15 * MIB, 101: GIB + 5 * MIB });
  });

  it("stays within its bounds for any guests and any host", () => {
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 48271) % 2147483647;
      return seed % below;
    };
    for (let round = 0; round < 500; round++) {
      const guests = Array.from({ length: 1 + random(6) }, (_, index) => {
        const max = (1 + random(64)) * 64 * MIB;
        const min = Math.max(16 * MIB, random(max));
        return guest(100 + index, {
          max,
          min,
          balloon: random(max + 1),
          shares: 1 + random(5000),
          ...(random(2) === 0 ? {} : { free: random(max) }),
        });
      });
      const host = { total: 16 * GIB, used: random(16 * 1024) * MIB };
      for (const [vmid, bytes] of balloonTargets(guests, host)) {
        const { balloon, min, max } = guests[vmid - 100] as BalloonedGuest;
        expect(Number.isInteger(bytes)).toBe(true);
        expect(Math.abs(bytes - balloon)).toBeLessThanOrEqual(STEP);
        expect(bytes).toBeLessThanOrEqual(max);
        expect(bytes >= min || bytes > balloon).toBe(true);
      }
    }
  });
});
