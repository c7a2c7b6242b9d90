import { expect, it } from "vitest";
import { balloonInfo, driveStatistics } from "./guest-statistics.ts";

it("names drives as the configuration does, and leaves out what is none", () => {
  expect(
    driveStatistics([
      { device: "drive-scsi0", stats: { rd_bytes: 1 } },
      { device: "", qdev: "/machine/peripheral/virtio1/virtio-backend", stats: { rd_bytes: 2 } },
      { "node-name": "pflash0", stats: { rd_bytes: 3 } },
      { stats: { rd_bytes: 4 } },
    ]),
  ).toEqual({ scsi0: { rd_bytes: 1 }, virtio1: { rd_bytes: 2 } });
});

it("tells of memory what the guest told, and nothing it did not", () => {
  expect(balloonInfo(5, 9, undefined)).toEqual({ actual: 5, max_mem: 9 });
  expect(balloonInfo(5, 9, { stats: { "stat-free-memory": 3 }, "last-update": 0 })).toEqual({
    actual: 5,
    max_mem: 9,
  });
  expect(
    balloonInfo(5, 9, {
      stats: {
        "stat-free-memory": 3,
        "stat-total-memory": 8,
        "stat-swap-in": 18_446_744_073_709_552_000,
        "stat-x": 1,
      },
      "last-update": 77,
    }),
  ).toEqual({ actual: 5, max_mem: 9, free_mem: 3, total_mem: 8, last_update: 77 });
});
