import { expect, it } from "vitest";
import { decodeRemoteOffer, isRemoteTunnel } from "./remote-cluster.ts";

it("takes an offer for what it is, and nothing else", () => {
  const offer = {
    isPaused: false,
    disks: ["scsi0"],
    machine: "pc",
    cpu: "max",
    vmgenid: "6c0a7f6e-52f7-4a61-8a4a-2d2a60ad5dd4",
  };
  expect(decodeRemoteOffer(offer)).toEqual(offer);
  expect(decodeRemoteOffer({ isPaused: true, disks: [] })).toEqual({ isPaused: true, disks: [] });
  for (const bad of [
    undefined,
    null,
    {},
    { ...offer, isPaused: "no" },
    { ...offer, disks: "scsi0" },
    { ...offer, disks: [1] },
    { ...offer, machine: 1 },
    { ...offer, cpu: {} },
    { ...offer, vmgenid: "x\nargs: y" },
  ])
    expect(decodeRemoteOffer(bad)).toBeUndefined();
});

it("knows a line that was offered", () => {
  expect(isRemoteTunnel({ upid: "u", socket: "s", ticket: "t" })).toBe(true);
  for (const bad of [null, undefined, {}, { upid: "u", socket: "s" }])
    expect(isRemoteTunnel(bad)).toBe(false);
});
