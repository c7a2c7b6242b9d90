// What many messages between servers and agents have alike.
import { Type, type TProperties } from "typebox";

/** Closed: what a node does not understand, it must not leave undone in silence. */
export const request = <P extends TProperties>(more: P) =>
  Type.Object({ node: Type.String(), ...more }, { additionalProperties: false });

/** What permission was judged on. */
export const tenant = Type.String();

/** Of what the client asked for: asked again, it is the same task. */
export const requestId = Type.String();
