import { createSocket } from "node:dgram";
import { once } from "node:events";
import { expect, test } from "vitest";
import { magicPacket } from "../../application/node/node-configs.ts";
import { sendWakePacket } from "./udp-wake.ts";

test.each([undefined, "lo"])("a packet arrives as it was made, by the card %s", async (iface) => {
  const receiver = createSocket("udp4");
  try {
    receiver.bind(0, "127.0.0.1");
    await once(receiver, "listening");
    const arrived = once(receiver, "message");
    const bytes = magicPacket("BC:24:11:00:00:01");
    await sendWakePacket({ bytes, broadcast: "127.0.0.1", iface }, receiver.address().port);
    const [message] = (await arrived) as [Buffer];
    expect(message.toString("hex")).toBe(`ffffffffffff${"bc2411000001".repeat(16)}`);
  } finally {
    receiver.close();
  }
});

test("a card that is not there, and a place that cannot be reached, are told", async () => {
  const packet = { bytes: magicPacket("BC:24:11:00:00:01"), broadcast: "127.0.0.1" };
  await expect(sendWakePacket({ ...packet, iface: "nosuch0" })).rejects.toThrow(
    "Unable to bind to interface 'nosuch0'",
  );
  await expect(
    sendWakePacket({ ...packet, broadcast: "not an address", iface: undefined }),
  ).rejects.toMatchObject({
    code: "operation.failed",
    message: expect.stringMatching(/^Unable to send packet/),
  });
});
