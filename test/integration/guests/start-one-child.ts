// Says "go" and starts one guest, to be killed in the middle of it. argv: DIR ID
import { bootable, guestWorld } from "./guest-world.ts";

const [folder = "", id = "700"] = process.argv.slice(2);
const world = await guestWorld(folder);
const guests = world.guests();
const disk = world.disk(`${id}.raw`, "halt");
console.log("go");
await guests.startQemu(bootable(id, disk));
console.log("started");
setInterval(() => undefined, 60_000);
