export { prepare as default } from './environment/prepared.ts';
