import { expect, test } from "vitest";
import { planDescriptors } from "./net-descriptors.ts";

const HOST = { arch: "x86_64", vhostNet: true } as const;
const card = (model: string, options = "") => `${model}=BC:24:11:00:00:01,bridge=vmbr0${options}`;

test("every queue of a virtio card has a tap and a vhost, taps of all cards first", () => {
  const values = {
    net1: card("virtio", ",queues=2"),
    net0: card("virtio"),
    net2: "virtio=BC:24:11:00:00:02",
  };
  expect(planDescriptors(values, HOST, 32)).toMatchObject({
    cards: [
      { key: "net0", firstFd: 32 },
      { key: "net1", firstFd: 33 },
    ],
    descriptors: { net0: { tap: [32], vhost: [35] }, net1: { tap: [33, 34], vhost: [36, 37] } },
    vhost: { count: 3, firstFd: 35 },
    end: 38,
  });
});

test("other cards have one queue whatever they say, and no vhost", () => {
  const plan = planDescriptors({ net0: card("e1000", ",queues=8") }, HOST, 32);
  expect(plan.descriptors).toEqual({ net0: { tap: [32] } });
  expect(plan.vhost).toBeUndefined();
});

test("vhost is for guests of the host's own architecture", () => {
  const values = { arch: "aarch64", net0: card("virtio") };
  expect(planDescriptors(values, HOST, 32).descriptors).toEqual({ net0: { tap: [32] } });
  expect(planDescriptors(values, { ...HOST, arch: "aarch64" }, 32).descriptors["net0"]?.vhost).toEqual([33]);
  expect(planDescriptors({ net0: card("virtio") }, { ...HOST, vhostNet: false }, 32).vhost).toBeUndefined();
});
