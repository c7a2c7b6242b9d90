// Starts guests in the data directory it is given and waits to be killed. argv: DIR COUNT
import { bootable, guestWorld } from "./guest-world.ts";

const [folder = "", count = "0"] = process.argv.slice(2);
const world = await guestWorld(folder);
const guests = world.guests();
for (let index = 0; index < Number(count); index++) {
  const id = String(200 + index);
  const program = index === 2 ? "powerOff" : "halt";
  await guests.startQemu(
    bootable(id, world.disk(`${id}.raw`, program), {
      note: { vmid: 200 + index },
      args: index === 2 ? ["-S"] : [],
    }),
  );
}
console.log("ready");
setInterval(() => undefined, 60_000);
