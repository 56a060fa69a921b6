//! How much there may be of what is short when it is written and large when it is read: shorthand and regular expressions.

use std::collections::HashSet;
use std::sync::Arc;

use crate::node::{Kind, Node};

/// What nodes that are held together may still come to. An expression that several of them have counts once, as it is held once.
#[derive(Debug)]
pub struct Budget {
    expansions: Share,
    regexes: Share,
    seen: HashSet<Arc<str>>,
}

/// What is left of how much.
#[derive(Debug)]
struct Share {
    left: usize,
    of: usize,
}

/// There is more of it than anybody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exhausted {
    /// Of what shorthand stands for.
    #[error("with it, shorthand would stand for more than {0} permissions: write fewer of them, or wildcards")]
    Expansions(usize),
    /// Of expressions.
    #[error(
        "with it, there would be more than {0} different regular expressions, of which a large one counts for eight: write fewer of them, or wildcards"
    )]
    Regexes(usize),
}

impl Budget {
    /// Of one user or group.
    pub fn of_holder() -> Self {
        Self::new(50_000, 1_000)
    }

    /// Of all groups together, which every node of the network holds in memory.
    pub fn of_groups() -> Self {
        Self::new(1_000_000, 4_000)
    }

    /// Of a whole file.
    pub fn of_file() -> Self {
        Self::new(2_000_000, 10_000)
    }

    fn new(expansions: usize, regexes: usize) -> Self {
        let all = |of| Share { left: of, of };
        Self { expansions: all(expansions), regexes: all(regexes), seen: HashSet::new() }
    }

    /// Takes what a node comes to.
    ///
    /// # Errors
    /// If there is not so much left; then nothing is taken.
    pub fn take(&mut self, node: &Node) -> Result<(), Exhausted> {
        match node.kind() {
            Kind::Permission(_) => self.expansions.take(node.effort()).map_err(Exhausted::Expansions),
            Kind::Regex(_) if !self.seen.contains(node.key()) => {
                self.regexes.take(node.effort()).map_err(Exhausted::Regexes)?;
                self.seen.insert(Arc::clone(node.key()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes what all of these come to.
    ///
    /// # Errors
    /// If there is not so much left.
    pub fn take_all(&mut self, nodes: &[Node]) -> Result<(), Exhausted> {
        nodes.iter().try_for_each(|node| self.take(node))
    }
}

impl Share {
    fn take(&mut self, amount: usize) -> Result<(), usize> {
        self.left = self.left.checked_sub(amount).ok_or(self.of)?;
        Ok(())
    }
}
