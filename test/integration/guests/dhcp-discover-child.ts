// Asks for an address as a guest would: broadcasts DHCPDISCOVER and prints what is offered. Run it in a namespace
// whose only interface leads to the bridge.
import { createSocket } from "node:dgram";

const socket = createSocket({ type: "udp4", reuseAddr: true });
const packet = Buffer.alloc(300);
packet.set([1, 1, 6, 0, 0x12, 0x34, 0x56, 0x78, 0, 0, 0x80, 0], 0); // boot request, broadcast flag
packet.set([0x02, 0, 0, 0, 0, 0x99], 28);
packet.set([0x63, 0x82, 0x53, 0x63, 53, 1, 1, 55, 2, 3, 6, 255], 236);
socket.on("message", (reply) => {
  console.log(`offered ${[...reply.subarray(16, 20)].join(".")}`);
  process.exit(0);
});
socket.bind(68, "0.0.0.0", () => {
  socket.setBroadcast(true);
  const send = (): void => socket.send(packet, 67, "255.255.255.255");
  send();
  setInterval(send, 500);
});
setTimeout(() => process.exit(1), 15_000);
