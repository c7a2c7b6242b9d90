import { expect, test } from "vitest";
import { openTerminal } from "./terminal-process.ts";

test("a program on a terminal is started by the supervisor, talked to and hung up", async () => {
  const echo = openTerminal("/bin/echo", ["/bin/login", "-f"]);
  const said: string[] = [];
  for await (const chunk of echo.output) said.push(Buffer.from(chunk).toString());
  expect(said.join("")).toBe("terminal /bin/login -f\n");
  await echo.closed;
  await expect(echo.write(Buffer.from("x"))).rejects.toThrow("the terminal is closed");

  // Reads nothing, so that its pipe fills; then it ends by itself.
  const deaf = openTerminal("/bin/sleep", ["0.2"]);
  await deaf.write(Buffer.alloc(1024 * 1024));
  deaf.close();
  await deaf.closed;
});
