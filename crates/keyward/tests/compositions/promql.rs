//! As much of `PromQL` as the alerts on one token need: every metric has one series or none.

/// What an expression comes to; `None` where there is no such series, or a comparison leaves none.
pub(crate) fn evaluate(expression: &str, known: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let mut reading = Reading {
        words: words(expression),
        known,
    };
    let value = reading.joined();
    assert!(reading.words.is_empty(), "not read: {:?}", reading.words);
    value
}

/// The words of it, the last one first.
fn words(expression: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    for letter in expression.chars() {
        let in_word = letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
        match words.last_mut().filter(|_| open && in_word) {
            Some(word) => word.push(letter),
            None if !letter.is_whitespace() => words.push(letter.to_string()),
            None => {}
        }
        open = in_word;
    }
    words.reverse();
    words
}

struct Reading<F> {
    words: Vec<String>,
    known: F,
}

impl<F: Fn(&str) -> Option<f64>> Reading<F> {
    /// Whether the next word is one of these; if so, it and the labels to match by are read.
    fn operator(&mut self, any_of: &[&str]) -> Option<String> {
        let next = self.words.last()?;
        if !any_of.contains(&next.as_str()) {
            return None;
        }
        let operator = self.words.pop();
        if self.words.last().is_some_and(|word| word == "on") {
            while self.words.pop().is_some_and(|word| word != ")") {}
        }
        operator
    }

    fn joined(&mut self) -> Option<f64> {
        let mut left = self.compared();
        while let Some(operator) = self.operator(&["and", "unless"]) {
            let right = self.compared();
            left = left.filter(|_| right.is_some() == (operator == "and"));
        }
        left
    }

    fn compared(&mut self) -> Option<f64> {
        let mut left = self.sum();
        while let Some(operator) = self.operator(&["<", ">"]) {
            let right = self.sum();
            let holds = |left: &f64| match (operator.as_str(), right) {
                (_, None) => false,
                ("<", Some(right)) => *left < right,
                (_, Some(right)) => *left > right,
            };
            left = left.filter(holds);
        }
        left
    }

    fn sum(&mut self) -> Option<f64> {
        let mut left = self.product();
        while let Some(operator) = self.operator(&["+", "-"]) {
            let sign = if operator == "+" { 1.0 } else { -1.0 };
            left = left
                .zip(self.product())
                .map(|(left, right)| left + sign * right);
        }
        left
    }

    fn product(&mut self) -> Option<f64> {
        let mut left = self.one();
        while self.operator(&["*"]).is_some() {
            left = left.zip(self.one()).map(|(left, right)| left * right);
        }
        left
    }

    fn one(&mut self) -> Option<f64> {
        let word = self.words.pop().expect("something is left to read");
        if word == "(" {
            let value = self.joined();
            assert_eq!(self.words.pop().as_deref(), Some(")"));
            return value;
        }
        if word == "time" {
            assert_eq!(
                [self.words.pop(), self.words.pop()].map(Option::unwrap),
                ["(", ")"]
            );
        }
        word.parse().ok().or_else(|| (self.known)(&word))
    }
}
