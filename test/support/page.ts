import { connect } from "node:net";

/** What is said at an address of this machine's networks, or why nothing was. */
export function page(host: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(80, host, () => socket.write("GET / HTTP/1.0\r\n\r\n"));
    let text = "";
    socket.on("data", (data) => (text += String(data)));
    socket.on("error", (err) => resolve(err.message));
    socket.on("end", () => resolve(text));
    socket.setTimeout(30_000, () => {
      socket.destroy();
      resolve("no answer for 30 s");
    });
  });
}
